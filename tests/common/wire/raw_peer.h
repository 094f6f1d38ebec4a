// RawPeer: one end of a TCP connection that speaks ZMTP 3.1 byte by byte, so that a test can send what no library
// would.
//
// Kind: owned by a test's thread. Its calls fail the test if the other end does not answer in time.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

#include "tests/catch.h"
#include "tests/patience.h"

namespace capstan::testing {

inline int PortOf(const std::string& endpoint) { return std::stoi(endpoint.substr(endpoint.rfind(':') + 1)); }

inline sockaddr_in LoopbackAddress(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

inline bool IsReadable(int descriptor) {
  pollfd now{descriptor, POLLIN, 0};
  return poll(&now, 1, 0) == 1;
}

// Fails the test if nothing happens within 30 s, times Patience().
inline void AwaitReadable(int descriptor) {
  pollfd waiting{descriptor, POLLIN, 0};
  if (poll(&waiting, 1, 30'000 * Patience()) != 1) FAIL("nothing has come within " << 30 * Patience() << " s");
}

inline int ConnectRaw(const std::string& endpoint) {
  const sockaddr_in address = LoopbackAddress(PortOf(endpoint));
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(descriptor >= 0);
  REQUIRE(connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return descriptor;
}

// Listens on a free port of this machine without speaking any protocol.
struct Listener {
  Listener() {
    sockaddr_in address = LoopbackAddress(0);
    socklen_t size = sizeof address;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(fd, 8) == 0);
    REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    endpoint = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~Listener() { close(fd); }
  int Accept() const {
    AwaitReadable(fd);
    return accept(fd, nullptr, nullptr);
  }
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  std::string endpoint;
};

// Returns a frame's bytes: flags, length, contents.
enum FrameFlags { kLast = 0, kMore = 1, kCommand = 4 };
inline std::string RawFrame(int flags, std::string_view contents) {
  std::string bytes(1, static_cast<char>(flags));
  if (contents.size() > 255) {
    bytes[0] = static_cast<char>(flags | 2);
    for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(contents.size() >> shift);
  } else {
    bytes += static_cast<char>(contents.size());
  }
  return bytes.append(contents);
}
inline std::string Property(std::string_view name, std::string_view value) {
  std::string bytes(1, static_cast<char>(name.size()));
  bytes.append(name);
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value.size() >> shift);
  return bytes.append(value);
}
inline std::string Ready(std::string_view socket_type, std::string_view identity) {
  return RawFrame(kCommand, "\5READY" + Property("Socket-Type", socket_type) + Property("Identity", identity));
}
// `context`: up to 16 bytes that come back.
inline std::string PingCommand(std::string_view context = {}) {
  return RawFrame(kCommand, std::string("\4PING\0\0", 7).append(context));
}

class RawPeer {
 public:
  explicit RawPeer(int descriptor) : descriptor_(descriptor) {}
  RawPeer(RawPeer&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), received_(std::move(other.received_)) {}
  RawPeer& operator=(RawPeer&&) = delete;
  ~RawPeer() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  // Connects and greets; the other end's greeting has arrived.
  static RawPeer Greeted(const std::string& endpoint) {
    RawPeer peer(ConnectRaw(endpoint));
    peer.Greet();
    return peer;
  }
  // The handshake is done on both sides.
  static RawPeer Connected(const std::string& endpoint, std::string_view identity = {}) {
    RawPeer peer = Greeted(endpoint);
    REQUIRE(peer.Send(Ready("DEALER", identity)));
    REQUIRE(peer.ReadUntil("READY"));
    return peer;
  }

  void Greet() {
    std::string greeting(64, '\0');
    greeting[0] = '\xFF';
    greeting[9] = '\x7F';
    greeting[10] = 3;
    greeting[11] = 1;
    greeting.replace(12, 4, "NULL");
    REQUIRE(Send(greeting));
    REQUIRE(ReadUntil("NULL"));
  }

  // Returns false if the connection is closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // Sends as much as the connection takes without waiting. Returns how much that was.
  std::size_t SendNow(std::string_view bytes) {
    const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 ? 0 : static_cast<std::size_t>(sent);
  }
  // Reads until what has arrived so far contains `text` so many times. Returns false if the connection is closed
  // before.
  bool ReadUntil(std::string_view text, int count = 1) {
    while (CountReceived(text) < count) {
      if (!ReadSome()) return false;
    }
    return true;
  }
  // Reads until the other end closes the connection.
  void ReadToTheEnd() {
    while (ReadSome()) {
    }
  }
  // Ends this direction of the connection.
  void EndSending() const { shutdown(descriptor_, SHUT_WR); }
  const std::string& received() const { return received_; }  // all that has arrived
  int descriptor() const { return descriptor_; }
  int own_port() const {
    sockaddr_in own{};
    socklen_t size = sizeof own;
    REQUIRE(getsockname(descriptor_, reinterpret_cast<sockaddr*>(&own), &size) == 0);
    return ntohs(own.sin_port);
  }
  int CountReceived(std::string_view text) const {
    int count = 0;
    for (std::size_t at = received_.find(text); at != received_.npos; at = received_.find(text, at + 1)) ++count;
    return count;
  }

  // Ends the connection with a reset instead of a regular end.
  void Reset() {
    const linger at_once{1, 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(std::exchange(descriptor_, -1));
  }

 private:
  bool ReadSome() {
    AwaitReadable(descriptor_);
    char buffer[4096];
    const ssize_t size = read(descriptor_, buffer, sizeof buffer);
    if (size <= 0) return false;
    received_.append(buffer, static_cast<std::size_t>(size));
    return true;
  }

  int descriptor_;
  std::string received_;
};

}  // namespace capstan::testing
