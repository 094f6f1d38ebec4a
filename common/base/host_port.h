// IsHostPort: whether a text is the address of a process, HOST:PORT; HostOf: its host.
//
// Kind:   pure functions.
// Why:    peers and people give addresses: what is none is found before anything is connected to it, written or shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace capstan {

inline constexpr std::size_t kHostBytesMax = 253;  // of a name

// HOST is a name, an IPv4 address, or an IPv6 address in brackets; PORT is a number from 1 to 65535.
bool IsHostPort(std::string_view text);
// kInvalid, with what to write; `what`: the flag or argument that it was given as.
Status CheckHostPort(const std::string& what, const std::string& address);

// The text before the last colon; all of it where there is none.
std::string HostOf(const std::string& address);
// This host, in brackets if it is an address of IPv6 without them, with the port of `address`.
std::string WithHost(const std::string& host, const std::string& address);
// Whether the host is this machine's alone: 127.0.0.0/8, ::1, localhost.
bool IsLoopback(const std::string& host);
// Whether the host stands for all addresses of a machine.
bool IsWildcard(const std::string& host);

}  // namespace capstan
