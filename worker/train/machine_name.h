// MachineName: what all workers of this machine call it, and no others do.
//
// Kind:   pure function, but for a look at the system.
// Why:    processes that share a kernel share its boot id, in whatever containers they are. Where that is not a machine
//         to its user, capstan-worker --machine gives another name.
#pragma once

#include <string>

namespace capstan::train {

// Empty where the system does not say.
std::string MachineName();

}  // namespace capstan::train
