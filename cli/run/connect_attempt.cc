#include "cli/run/connect_attempt.h"

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

ConnectAttempt::ConnectAttempt(ConnectAttempt&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), failure_(std::move(other.failure_)) {}

ConnectAttempt& ConnectAttempt::operator=(ConnectAttempt&& other) noexcept {
  Close();
  fd_ = std::exchange(other.fd_, -1);
  failure_ = std::move(other.failure_);
  return *this;
}

void ConnectAttempt::Begin(const std::string& address) {
  Close();
  failure_.clear();
  std::string host = HostOf(address);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), address.c_str() + address.rfind(':') + 1, &hints, &list);
      error != 0) {
    failure_ = gai_strerror(error);
    return;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  fd_ = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ >= 0 && (connect(fd_, list->ai_addr, list->ai_addrlen) == 0 || errno == EINPROGRESS)) return;
  failure_ = std::strerror(errno);
  Close();
}

bool ConnectAttempt::IsOpen() {
  pollfd wanted{fd_, POLLOUT, 0};
  if (fd_ < 0) return false;
  if (poll(&wanted, 1, 0) <= 0) return true;
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) failure_ = std::strerror(error);
  Close();
  return false;
}

void ConnectAttempt::GiveUp(std::string reason) {
  Close();
  failure_ = std::move(reason);
}

void ConnectAttempt::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace capstan::cli
