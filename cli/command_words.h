// SpreadSettings, TakeScriptArguments, ExplainUnexpected: accept several settings after one --set, leave a script's
// arguments alone, and explain words of a command line that no option takes.
//
// Kind:   pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/reference/command_facts.h"
#include "common/base/status.h"

namespace capstan::cli {

// Turns "--set a.b=1 c.d=2" into "--set a.b=1 --set c.d=2". Fails for "--set a.b 1", where the "=" is missing.
Result<std::vector<std::string>> SpreadSettings(const std::vector<std::string>& words);

// Removes the words behind the script from the words of `capstan run [OPTIONS] SCRIPT [ARGUMENTS]`, whose first word is
// "run", and returns them. "--" in front of the script is removed, too. `run`: the command's options.
std::vector<std::string> TakeScriptArguments(const CommandFacts& run, std::vector<std::string>* words);

// A command line with words that no option takes, and what they may stand for: an option, or a key of the job file.
struct CommandWords {
  std::vector<std::string> typed;       // every word of the call
  std::vector<std::string> unexpected;  // the words that no option takes
  std::vector<std::string> options;     // existing options, such as "--run-dir"
  std::vector<std::string> keys;        // keys of the job file, such as "cluster.workers"
};
std::string ExplainUnexpected(const CommandWords& words);

}  // namespace capstan::cli
