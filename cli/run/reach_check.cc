#include "cli/run/reach_check.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "common/base/host_port.h"

namespace capstan::cli {
namespace {

// Begins to connect. Returns the socket, or -1 with the reason in `failure`.
int BeginConnection(const std::string& address, std::string* failure) {
  std::string host = HostOf(address);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), address.c_str() + address.rfind(':') + 1, &hints, &list);
      error != 0) {
    *failure = gai_strerror(error);
    return -1;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  const int fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0 && (connect(fd, list->ai_addr, list->ai_addrlen) == 0 || errno == EINPROGRESS)) return fd;
  *failure = std::strerror(errno);
  if (fd >= 0) close(fd);
  return -1;
}

// Whether the attempt has ended: connected, or failed with a reason in `failure`.
bool IsDecided(int fd, std::string* failure) {
  pollfd wanted{fd, POLLOUT, 0};
  if (poll(&wanted, 1, 0) <= 0) return false;
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) *failure = std::strerror(error);
  return true;
}

}  // namespace

ReachCheck::~ReachCheck() {
  for (const auto& [who, attempt] : attempts_) {
    if (attempt.fd >= 0) close(attempt.fd);
  }
}

void ReachCheck::Try(const std::string& who, const std::string& address, Clock::time_point now) {
  Attempt& attempt = attempts_[who];
  if (attempt.address == address || !IsHostPort(address)) return;
  if (attempt.fd >= 0) close(attempt.fd);
  attempt = {address, -1, now + kPatience, ""};
  attempt.fd = BeginConnection(address, &attempt.failure);
}

std::vector<std::string> ReachCheck::Look(Clock::time_point now) {
  std::vector<std::string> lines;
  for (auto& [who, attempt] : attempts_) {
    if (attempt.fd >= 0) {
      const bool decided = IsDecided(attempt.fd, &attempt.failure);
      if (!decided && now < attempt.deadline) continue;
      if (!decided) attempt.failure = "no answer in " + std::to_string(kPatience.count()) + " s";
      close(std::exchange(attempt.fd, -1));
    }
    if (attempt.failure.empty()) continue;
    lines.push_back(who + " says that it is reached at " + attempt.address +
                    ", and this machine gets no connection there (" + std::exchange(attempt.failure, "") +
                    "): check cluster.listen and cluster.advertise of that server, and the network and its firewall "
                    "between them");
  }
  return lines;
}

}  // namespace capstan::cli
