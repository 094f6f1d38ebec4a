// MachineName: a name that is the same for all workers on this machine, and different on every other machine.
//
// Kind:   a function that reads the system.
// Why:    processes that share a kernel read the same boot id, in whatever containers they run. A user who wants to
//         group workers otherwise names machines with capstan-worker --machine.
#pragma once

#include <string>

namespace capstan::train {

// Returns the name; empty if the system gives no boot id.
std::string MachineName();

}  // namespace capstan::train
