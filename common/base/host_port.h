// IsHostPort: whether a text is the address of a process, HOST:PORT; HostOf: its host.
//
// Kind:   pure functions.
// Why:    addresses come from peers and users; a bad one is found before it is connected to, stored or shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace capstan {

inline constexpr std::size_t kHostBytesMax = 253;  // longest host name

// Whether the text is HOST:PORT. HOST is a name, an IPv4 address, or an IPv6 address in brackets; PORT is a number from
// 1 to 65535.
bool IsHostPort(std::string_view text);
// Returns ok if IsHostPort(address), and otherwise kInvalid with an example. `what`: the address's flag or argument.
Status CheckHostPort(const std::string& what, const std::string& address);

// Returns the text before the last colon; the whole text if there is none.
std::string HostOf(const std::string& address);
// Returns `host` with the port of `address`. Adds brackets to an IPv6 address that has none.
std::string WithHost(const std::string& host, const std::string& address);
// Whether only this machine can reach the host: 127.0.0.0/8, ::1, localhost.
bool IsLoopback(const std::string& host);
// Whether the host means all addresses of a machine.
bool IsWildcard(const std::string& host);

}  // namespace capstan
