// ConnectionsOf: the TCP connections of this process that have a given port on one of their ends.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <set>
#include <string>
#include <vector>

#include "tests/common/wire/raw_peer.h"

namespace capstan::testing {

// A connected TCP socket of this process.
struct Connection {
  int descriptor = 0, own_port = 0, other_port = 0;
};

inline std::vector<Connection> ConnectionsOf(const std::string& endpoint) {
  const int port = PortOf(endpoint);
  std::vector<Connection> found;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    sockaddr_in own{}, other{};
    socklen_t own_size = sizeof own, other_size = sizeof other;
    if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) continue;
    if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&other), &other_size) != 0) continue;
    const Connection connection{descriptor, ntohs(own.sin_port), ntohs(other.sin_port)};
    const bool touches = connection.own_port == port || connection.other_port == port;
    if (own.sin_family == AF_INET && touches) found.push_back(connection);
  }
  return found;
}

// Returns the own ports of this process's connections to `endpoint`.
inline std::set<int> CallersOf(const std::string& endpoint) {
  std::set<int> ports;
  for (const Connection& connection : ConnectionsOf(endpoint)) {
    if (connection.other_port == PortOf(endpoint)) ports.insert(connection.own_port);
  }
  return ports;
}

// Returns the descriptor of this process that is connected to the port `other_port`; -1 if there is none (any more).
inline int DescriptorTo(const std::string& endpoint, int other_port) {
  for (const Connection& connection : ConnectionsOf(endpoint)) {
    if (connection.other_port == other_port) return connection.descriptor;
  }
  return -1;
}

inline bool IsClosed(int descriptor) { return fcntl(descriptor, F_GETFD) == -1; }

// Returns at least as many bytes as the peer has sent and the other end, which is in this process, has not read.
inline int BytesInKernel(const std::string& endpoint, const RawPeer& peer) {
  int unsent = 0, unread = 0;
  REQUIRE(ioctl(peer.descriptor(), TIOCOUTQ, &unsent) == 0);
  REQUIRE(ioctl(DescriptorTo(endpoint, peer.own_port()), FIONREAD, &unread) == 0);
  return unsent + unread;
}

}  // namespace capstan::testing
