// AllPrograms: the commands and options of capstan, capstan-server and capstan-worker.
#pragma once

#include <vector>

#include "cli/reference/command_facts.h"

namespace capstan::cli {

// `capstan`: those of the program that asks, which no other file describes.
std::vector<CommandFacts> AllPrograms(const CommandFacts& capstan);

}  // namespace capstan::cli
