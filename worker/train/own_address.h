// OwnAddress: the address of this machine on the way to another one.
//
// Kind:   pure function, but for a look at names and routes; sends nothing.
// Fails:  kUnreachable when the host is not known or there is no way to it.
#pragma once

#include <string>

#include "common/status.h"

namespace capstan::train {

// `endpoint`: "host:port".
Result<std::string> OwnAddress(const std::string& endpoint);

}  // namespace capstan::train
