#include "cli/run/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>

#include "common/base/host_port.h"
#include "common/base/own_address.h"
#include "common/base/process_address.h"

namespace capstan::cli {

std::string UrlOf(const std::string& address) {
  return address.find("://") == address.npos ? "http://" + address : address;
}

namespace {

// Returns where an address's #KEY begins, or its end.
std::size_t KeyAt(const std::string& address) { return std::min(address.size(), address.find('#')); }

}  // namespace

std::uint16_t PortOf(const std::string& address) {
  const std::size_t key = KeyAt(address), colon = address.rfind(':', key);
  if (colon == address.npos) return 0;
  std::uint16_t port = 0;
  const char* const end = address.data() + key;
  const auto read = std::from_chars(address.data() + colon + 1, end, port);
  return read.ec == std::errc() && read.ptr == end ? port : 0;
}

std::string ShiftPort(const std::string& address, std::uint32_t offset) {
  const std::uint16_t port = PortOf(address);
  if (port == 0) return address;
  const std::size_t key = KeyAt(address);
  return address.substr(0, address.rfind(':', key) + 1) + std::to_string(port + offset) + address.substr(key);
}

namespace {

constexpr std::uint32_t kLowestPort = 10000;

// Returns the first port of the range that the system assigns by itself; 0 if unknown.
std::uint32_t FirstDealtPort() {
  std::ifstream in("/proc/sys/net/ipv4/ip_local_port_range");
  std::uint32_t first = 0;
  return in >> first ? first : 0;
}

enum class Linger : std::uint8_t { kCounts, kPassedOver };  // whether old connections make a port taken

bool CanBind(in_addr host, std::uint16_t port, Linger linger) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int pass_over = linger == Linger::kPassedOver ? 1 : 0;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr = host;
  address.sin_port = htons(port);
  const bool free = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &pass_over, sizeof pass_over) == 0 &&
                    bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return free;
}

}  // namespace

std::string ChoosePort(const std::string& wanted) {
  if (IsLocalAddress(wanted)) return wanted;
  const std::string address = wanted.substr(0, KeyAt(wanted)), key = wanted.substr(address.size());
  const std::uint32_t end = FirstDealtPort();
  if (!address.ends_with(":0") || end <= kLowestPort) return wanted;
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    std::uint32_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) break;
    const auto port = static_cast<std::uint16_t>(kLowestPort + random % (end - kLowestPort));
    if (CanBind({INADDR_ANY}, port, Linger::kCounts))
      return address.substr(0, address.rfind(':') + 1) + std::to_string(port) + key;
  }
  return wanted;
}

bool IsFree(const std::string& address) {
  const Result<std::string> numeric = NumericHost(address);
  const std::string host = numeric.ok() ? numeric->substr(0, numeric->rfind(':')) : "";
  in_addr binary{};
  if (host != "*" && inet_pton(AF_INET, host.c_str(), &binary) != 1) return false;
  return CanBind(binary, PortOf(*numeric), Linger::kPassedOver);
}

Result<std::string> NumericHost(const std::string& address) {
  const std::size_t colon = address.rfind(':', KeyAt(address));
  if (colon == address.npos || address.ends_with(']'))
    return Invalid("\"" + address + "\" has no port; write HOST:PORT");
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

Result<std::string> ResolveListen(const std::string& listen, const std::string& coordinator) {
  if (HostOf(listen) != "auto") return NumericHost(listen);
  if (IsLocalAddress(coordinator)) return WithHost(MachineOf(coordinator), listen);
  const Result<std::string> numeric = NumericHost(coordinator);  // IPv4 if the name has both
  CAPSTAN_ASSIGN_OR_RETURN(const std::string own, OwnAddress(numeric.ok() ? *numeric : coordinator));
  return WithHost(own, listen);
}

std::string ReachedAt(const std::string& bound, const std::string& listen, const std::string& host) {
  return IsWildcard(HostOf(listen)) ? WithHost(host, bound) : bound;
}

}  // namespace capstan::cli
