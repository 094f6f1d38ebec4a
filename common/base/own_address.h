// OwnAddress: the address of this machine on the way to another one; CheckOwnAddress: whether one is this machine's.
//
// Kind:   pure functions, but for a look at names, routes and interfaces; they send nothing.
// Fails:  OwnAddress kUnreachable when the host is not known or there is no way to it; CheckOwnAddress kInvalid.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan {

// `endpoint`: "host:port". In numbers, an address of IPv6 without brackets.
Result<std::string> OwnAddress(const std::string& endpoint);

// `host`: a name or an address, without a port.
Status CheckOwnAddress(const std::string& host);

}  // namespace capstan
