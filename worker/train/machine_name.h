// MachineName: a name that all workers on this machine have, and no workers on other machines.
//
// Kind:   a function that reads the system.
// Why:    processes that share a kernel share its boot id, in whatever containers they run. A user who wants other
//         groups gives names with capstan-worker --machine.
#pragma once

#include <string>

namespace capstan::train {

// Returns the name; empty if the system gives no boot id.
std::string MachineName();

}  // namespace capstan::train
