#include "cli/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>

namespace capstan::cli {

std::string WithoutScheme(const std::string& endpoint) {
  const std::size_t scheme = endpoint.find("://");
  return scheme == endpoint.npos ? endpoint : endpoint.substr(scheme + 3);
}

std::uint16_t PortOf(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  return colon == address.npos ? 0 : static_cast<std::uint16_t>(std::strtoul(address.c_str() + colon + 1, nullptr, 10));
}

std::string ShiftPort(const std::string& address, std::uint32_t offset) {
  const std::uint16_t port = PortOf(address);
  if (port == 0) return address;
  return address.substr(0, address.rfind(':') + 1) + std::to_string(port + offset);
}

Result<std::string> NumericHost(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon);
  if (host == "*" || host.starts_with('[')) return address;
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return Invalid("\"" + address + "\": the host is not known here (" + gai_strerror(error) +
                   "); write one of this machine's addresses in numbers");
  }
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr, text.data(), text.size());
  freeaddrinfo(found);
  return text.data() + address.substr(colon);
}

}  // namespace capstan::cli
