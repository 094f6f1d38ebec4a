#include "cli/doctor/network_checks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "cli/run/connect_attempt.h"
#include "common/base/host_port.h"
#include "common/base/own_address.h"

namespace capstan::cli {
namespace {

constexpr int kLoopbackMs = 1000;
// An address of the block that is kept for documents (RFC 5737). Nothing is sent to it: the system is asked by which of
// its own addresses it would send.
constexpr char kElsewhere[] = "192.0.2.1:1";

// Listens on a free port of 127.0.0.1 and connects to it. Returns what went wrong; empty: nothing.
std::string TryLoopback() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::strerror(errno);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof place;
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  std::string problem;
  if (bind(fd, address, size) != 0 || listen(fd, 1) != 0 || getsockname(fd, address, &size) != 0) {
    problem = std::strerror(errno);
  } else {
    ConnectAttempt attempt;
    attempt.Begin("127.0.0.1:" + std::to_string(ntohs(place.sin_port)));
    pollfd arrival{fd, POLLIN, 0};
    if (attempt.failure().empty() && poll(&arrival, 1, kLoopbackMs) <= 0) attempt.GiveUp("no connection arrives");
    problem = attempt.failure();
  }
  close(fd);
  return problem;
}

}  // namespace

NetworkFacts ReadNetwork() {
  NetworkFacts facts;
  facts.loopback_problem = TryLoopback();
  const Result<std::string> own = OwnAddress(kElsewhere);
  own.ok() ? facts.own_address = *own : facts.no_address_because = own.status().message();
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) facts.host_name = name.data();
  return facts;
}

Finding CheckLoopback(const NetworkFacts& facts) {
  if (facts.loopback_problem.empty()) return Good("ports", "processes can listen on 127.0.0.1 and are reached there");
  return Problem("ports", "no process can be reached on 127.0.0.1: " + facts.loopback_problem,
                 "bring the loopback interface up (ip link set lo up): the metrics of each process, and jobs over TCP, "
                 "need it");
}

Finding CheckMachineAddress(const NetworkFacts& facts) {
  const std::string host = facts.host_name.empty() ? "this machine" : "this machine, \"" + facts.host_name + "\",";
  if (facts.own_address.empty()) {
    return Warning("address", host + " has no way to other machines: " + facts.no_address_because,
                   "jobs on this machine alone need none; for several machines, connect it to their network");
  }
  if (IsLoopback(facts.own_address)) {
    return Warning("address", host + " would reach others from " + facts.own_address + ", a loopback address",
                   "write the address that others reach it by: cluster.advertise, or --address of a worker");
  }
  return Good("address", host + " is reached by others at " + facts.own_address +
                             " (the address of its default route; cluster.advertise names another one)");
}

}  // namespace capstan::cli
