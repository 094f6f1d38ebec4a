#include "common/wire/local_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>
#include <string_view>

namespace capstan {
namespace {

constexpr std::string_view kUnpaced = "reno";  // every kernel has it, and any process may choose it

bool SameAddress(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  }
  return a.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

}  // namespace

void TuneLocalConnection(int descriptor) {
  sockaddr_storage own{}, other{};
  socklen_t own_size = sizeof own, other_size = sizeof other;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&other), &other_size) != 0) return;
  if (!SameAddress(own, other)) return;
  (void)setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(), kUnpaced.size());
}

}  // namespace capstan
