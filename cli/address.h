// Addresses as the job file and the command line write them: "host:port".
//
// Kind:   pure functions, but for NumericHost, which asks the system's resolver.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace capstan::cli {

// Without a scheme: "tcp://a:1" gives "a:1".
std::string WithoutScheme(const std::string& endpoint);
// 0: it has none, or what stands there is no port.
std::uint16_t PortOf(const std::string& address);
// The same host with the port raised by `offset`; port 0 stays 0.
std::string ShiftPort(const std::string& address, std::uint32_t offset);
// An address with port 0 gets a port that is free now and that the system gives to nobody who does not name it: a
// process that comes back finds it free again. Unchanged when the system leaves no such port.
std::string ChoosePort(const std::string& address);
// Whether a process could listen there now.
bool IsFree(const std::string& address);
// Sockets listen on numeric addresses only. Fails without a port, and when the name is unknown here.
Result<std::string> NumericHost(const std::string& address);

}  // namespace capstan::cli
