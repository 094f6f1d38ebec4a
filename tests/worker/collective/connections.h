// Connections, ConnectionsSince: the TCP connections of this process, which tests break and slow down.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace capstan::collective {

// Returns the file descriptors of this process's TCP connections. A connection within the process has two.
inline std::set<int> Connections() {
  std::set<int> connections;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 && peer.sin_family == AF_INET) {
      connections.insert(fd);
    }
  }
  return connections;
}

inline std::vector<int> ConnectionsSince(const std::set<int>& before) {
  std::vector<int> ends;
  for (const int end : Connections()) {
    if (!before.contains(end)) ends.push_back(end);
  }
  return ends;
}

}  // namespace capstan::collective
