// SpreadSettings, ExplainUnexpected: words of a command line that are not as a program wants them: put right where it is
// plain what they mean, else explained.
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

// What is said of words that no option takes: the option that was probably meant, or the key of the job file.
struct CommandWords {
  std::vector<std::string> typed;       // all of them
  std::vector<std::string> unexpected;  // of those
  std::vector<std::string> options;     // that there are, as "--run-dir"
  std::vector<std::string> keys;        // of the job file, as "cluster.workers"
};
std::string ExplainUnexpected(const CommandWords& words);

}  // namespace capstan::cli
