// Checks of this machine's processor, memory, limits, clock and terminal.
//
// Kind:   pure functions.
#pragma once

#include "cli/doctor/finding.h"
#include "cli/doctor/machine_facts.h"
#include "cli/run/build_info.h"
#include "common/base/free_memory.h"

namespace capstan::cli {

Finding CheckBuild(const Build& build);
Finding CheckProcessor(const ProcessorFacts& facts);
Finding CheckFreeMemory(const FreeMemory& free);
Finding CheckOpenFiles(const LimitFacts& facts);
Finding CheckCoreFiles(const LimitFacts& facts);
Finding CheckProcesses(const LimitFacts& facts);
Finding CheckClock(const ClockFacts& facts);
Finding CheckTerminal(const TerminalFacts& facts);

}  // namespace capstan::cli
