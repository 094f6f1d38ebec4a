// GoOnFile: the command that goes on with a run, in the file go-on.txt of its directory.
//
// Kind:   functions of a run directory.
// Fails:  kUnreachable: the file cannot be written.
// Why:    only who starts a run knows how it is started again: with which program, or on which machines.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan::cli {

Status WriteGoOnCall(const std::string& run_dir, const std::string& call);
// Of a run whose processes are started one by one.
void RemoveGoOnCall(const std::string& run_dir);

// Empty where capstan launch has not begun the run.
std::string GoOnCallOf(const std::string& run_dir);
inline constexpr char kGoOnByHand[] =
    "to go on, start the coordinator and the servers again by the same commands (workers that still run join by "
    "themselves)";
// "to go on: capstan launch ...", or what to start by hand.
std::string HowToGoOn(const std::string& run_dir);

}  // namespace capstan::cli
