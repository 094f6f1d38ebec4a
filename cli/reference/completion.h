// Completion: scripts with which a shell completes the commands, options and values of programs.
//
// Kind:   pure functions.
// Why:    a script is made from what the programs parse, so it cannot offer what they refuse.
#pragma once

#include <string>
#include <vector>

#include "cli/reference/command_facts.h"

namespace capstan::cli {

std::string BashCompletion(const std::vector<CommandFacts>& programs);
std::string ZshCompletion(const std::vector<CommandFacts>& programs);
std::string FishCompletion(const std::vector<CommandFacts>& programs);

}  // namespace capstan::cli
