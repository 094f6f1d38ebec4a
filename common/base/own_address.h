// OwnAddress: the address of this machine on its route to another machine. CheckOwnAddress: whether an address belongs
// to this machine.
//
// Kind:   functions that look up names, routes and interfaces; they send nothing apart from name queries.
// Fails:  OwnAddress kUnreachable when the host is unknown or there is no route to it; CheckOwnAddress kInvalid.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan {

// Returns the address of this machine on its route to `address`: a "host:port", or a socket of this machine, for which
// it is the loopback address. The result is numeric; an IPv6 address has no brackets.
Result<std::string> OwnAddress(const std::string& address);

// Returns ok if a socket can be bound to `host`, a name or an address without a port. Of a name, the first address
// counts.
Status CheckOwnAddress(const std::string& host);

}  // namespace capstan
