// GoOnFile: the command that continues a run, in the file go-on.txt of its directory.
//
// Kind:   functions of a run directory.
// Fails:  kUnreachable: the file cannot be written.
// Why:    only the program that starts a run knows how to start it again, and on which machines.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan::cli {

Status WriteGoOnCall(const std::string& run_dir, const std::string& call);
// Removes the file from a run whose processes are started one by one.
void RemoveGoOnCall(const std::string& run_dir);

// Returns the command; empty if there is no such file.
std::string GoOnCallOf(const std::string& run_dir);
inline constexpr char kGoOnByHand[] =
    "to go on, start the coordinator and the servers again by the same commands (workers that still run join by "
    "themselves)";
// Returns a line such as "to go on: capstan launch ...", or one that says what to start by hand.
std::string HowToGoOn(const std::string& run_dir);

}  // namespace capstan::cli
