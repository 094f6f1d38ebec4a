// Checks of the network: whether processes of this machine reach each other over TCP, and by which address other
// machines reach it.
//
// Kind:   the checks are pure functions; ReadNetwork opens sockets of this machine and looks up a route. It sends
//         nothing to other machines.
#pragma once

#include <string>

#include "cli/doctor/finding.h"

namespace capstan::cli {

struct NetworkFacts {
  std::string loopback_problem;    // why no process can listen on 127.0.0.1 and be reached there; empty: it works
  std::string own_address;         // this machine's address on the route to other machines; empty: there is none
  std::string no_address_because;  // if there is none
  std::string host_name;
};

NetworkFacts ReadNetwork();
Finding CheckLoopback(const NetworkFacts& facts);
Finding CheckMachineAddress(const NetworkFacts& facts);

}  // namespace capstan::cli
