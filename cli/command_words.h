// SpreadSettings, ExplainUnexpected: words of a command line that the program does not expect. They are corrected if
// their meaning is plain, and explained otherwise.
//
// Kind:   pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan::cli {

// "--set a.b=1 c.d=2" becomes "--set a.b=1 --set c.d=2". Fails where an assignment has no "=".
Result<std::vector<std::string>> SpreadSettings(const std::vector<std::string>& words);

// The words of a call that no option takes, and what could have been meant: an option, or a key of the job file.
struct CommandWords {
  std::vector<std::string> typed;       // every word of the call
  std::vector<std::string> unexpected;  // those that no option takes
  std::vector<std::string> options;     // existing options, such as "--run-dir"
  std::vector<std::string> keys;        // keys of the job file, such as "cluster.workers"
};
std::string ExplainUnexpected(const CommandWords& words);

}  // namespace capstan::cli
