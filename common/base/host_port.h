// IsHostPort: whether a text is a TCP address, HOST:PORT; HostOf: its host. IsPagesAddress: whether a text is the
// address of a process's pages, which may be encrypted.
//
// Kind:   pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace capstan {

inline constexpr std::size_t kHostBytesMax = 253;  // longest host name

// Whether the text is HOST:PORT. HOST is a name, an IPv4 address, or an IPv6 address in brackets; PORT is a number from
// 1 to 65535.
bool IsHostPort(std::string_view text);
// Whether the text is HOST:PORT (http), or https://HOST:PORT.
bool IsPagesAddress(std::string_view text);
// Returns the HOST:PORT of an address of pages.
std::string_view WithoutHttps(std::string_view text);

// Returns the text before the last colon; the whole text if there is none.
std::string HostOf(const std::string& address);
// Returns `host` with the port of `address`. Adds brackets to an IPv6 address that has none.
std::string WithHost(const std::string& host, const std::string& address);
// Whether the host is a loopback address (127.x.x.x, ::1) or "localhost", which only this machine can reach.
bool IsLoopback(const std::string& host);
// Whether the host stands for all addresses of a machine, such as 0.0.0.0.
bool IsWildcard(const std::string& host);

}  // namespace capstan
