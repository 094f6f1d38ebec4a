// TCP addresses as the job file and the command line write them: "host:port".
//
// Kind:   functions. Some ask the system: for free ports, for addresses of names, or for routes.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace capstan::cli {

// Returns the URL of the pages at HOST:PORT, which is http, or at https://HOST:PORT; without a path.
std::string UrlOf(const std::string& address);
// Returns the port; 0 if the address has no port, or no valid one.
std::uint16_t PortOf(const std::string& address);
// Returns the same host with the port raised by `offset`; port 0 stays 0.
std::string ShiftPort(const std::string& address, std::uint32_t offset);
// Replaces port 0 with a port that is free now and outside the range that the system assigns by itself, so that a
// restarted process probably finds it free again. Returns `wanted` unchanged if no such port is found.
std::string ChoosePort(const std::string& wanted);
// Whether a process could listen at the address now.
bool IsFree(const std::string& address);
// Replaces the host's name by its IPv4 address, because the sockets listen only on numeric addresses. Fails if the port
// is missing or the name cannot be resolved.
Result<std::string> NumericHost(const std::string& address);

// Resolves a listen address. Host "auto" becomes this machine's address on its route to the coordinator, whose address
// may also be a socket of this machine.
Result<std::string> ResolveListen(const std::string& listen, const std::string& coordinator);
// Returns the address at which other processes reach a socket. `bound`: the address that it is bound to. `listen`: the
// address that was asked for; if that has a wildcard host, `host` replaces it.
std::string ReachedAt(const std::string& bound, const std::string& listen, const std::string& host);

}  // namespace capstan::cli
