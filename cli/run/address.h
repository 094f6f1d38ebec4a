// Addresses as the job file and the command line write them: "host:port".
//
// Kind:   pure functions, but for NumericHost and ResolveListen, which ask the system's resolver and its routes.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

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

// Of an address to listen on, where host "auto" is the address of this machine that leads to the coordinator.
Result<std::string> ResolveListen(const std::string& listen, const std::string& coordinator);
// Where others reach what is bound at `bound` and has been asked to listen on `listen`: a host that stands for all
// addresses becomes `host`.
std::string ReachedAt(const std::string& bound, const std::string& listen, const std::string& host);

}  // namespace capstan::cli
