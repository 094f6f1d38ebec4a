#include "common/base/own_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/base/process_address.h"

namespace capstan {

Result<std::string> OwnAddress(const std::string& address) {
  if (IsLocalAddress(address)) return MachineOf(address);
  const std::string endpoint = WithoutKey(address);
  const std::size_t colon = endpoint.rfind(':');
  std::string host = endpoint.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string port = colon == std::string::npos ? "1" : endpoint.substr(colon + 1);
  const auto none = [&](const char* why) {
    return Unreachable("no address of this machine is known towards " + endpoint + ": " + why);
  };
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;  // connecting it only looks up the route
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list); error != 0) {
    return none(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  const int fd = socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return none(std::strerror(errno));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  const bool known = connect(fd, list->ai_addr, list->ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  const int error = errno;
  close(fd);
  if (!known) return none(std::strerror(error));
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return none("its address has no text");
  }
  return std::string(text.data());
}

Status CheckOwnAddress(const std::string& host) {
  const auto wrong = [&](const char* why) {
    return Invalid("--address " + host + ": " + why +
                   "; give an address of this machine that the other workers reach it by, without a port");
  };
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list); error != 0) {
    return wrong(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  const int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return wrong(std::strerror(errno));
  const int bound = bind(fd, list->ai_addr, list->ai_addrlen);  // to any port
  const int error = errno;
  close(fd);
  return bound == 0 ? Status() : wrong(std::strerror(error));
}

}  // namespace capstan
