#include "bench/raw_ring.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace capstan::bench {
namespace {

constexpr std::size_t kPieceBytes = 1u << 20;  // sent or received per call; the same bytes every time

Status Failed(const char* what) {
  return Unreachable(std::string("a plain socket of the benchmark: ") + what + " failed");
}

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

}  // namespace

RawRing::~RawRing() {
  if (to_next_ >= 0) close(to_next_);
  if (from_last_ >= 0) close(from_last_);
}

Status RawRing::Connect(int rank, int size, collective::Rendezvous* rendezvous) {
  outgoing_.resize(kPieceBytes);
  incoming_.resize(kPieceBytes);
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t bytes = sizeof address;
  if (bind(listening, reinterpret_cast<sockaddr*>(&address), bytes) != 0 || listen(listening, 1) != 0) {
    return Failed("listen");
  }
  getsockname(listening, reinterpret_cast<sockaddr*>(&address), &bytes);
  CAPSTAN_ASSIGN_OR_RETURN(
      const std::vector<std::string> ports,
      rendezvous->Exchange(rank, std::to_string(ntohs(address.sin_port)), collective::Deadline::max()));
  const sockaddr_in next = Loopback(std::stoi(ports[static_cast<std::size_t>((rank + 1) % size)]));
  to_next_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(to_next_, reinterpret_cast<const sockaddr*>(&next), sizeof next) != 0) return Failed("connect");
  from_last_ = accept(listening, nullptr, nullptr);
  close(listening);
  const int yes = 1;
  setsockopt(to_next_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return from_last_ >= 0 ? Status() : Failed("accept");
}

Status RawRing::Transfer(std::size_t bytes) {
  bool all_sent = true;
  std::thread sender([&] {
    for (std::size_t sent = 0; sent < bytes && all_sent;) {
      const ssize_t count = send(to_next_, outgoing_.data(), std::min(kPieceBytes, bytes - sent), MSG_NOSIGNAL);
      all_sent = count > 0;
      sent += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    }
  });
  bool all_came = true;
  for (std::size_t come = 0; come < bytes && all_came;) {
    const ssize_t count = recv(from_last_, incoming_.data(), std::min(kPieceBytes, bytes - come), 0);
    all_came = count > 0;
    come += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
  sender.join();
  return all_sent && all_came ? Status() : Failed("a transfer");
}

}  // namespace capstan::bench
