// WatchedSocket: a ZeroMQ socket, and the events of its connections.
//
// Kind:   owned by one thread.
// Why:    connections within one machine are tuned when they are made. And libzmq does not connect again after the
//         other side's bytes broke its protocol: one damaged byte would separate two processes for good.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace capstan {

struct SocketCloser {
  void operator()(void* socket) const;
};
using Socket = std::unique_ptr<void, SocketCloser>;

class WatchedSocket {
 public:
  WatchedSocket() = default;
  // `name`: unique in this context.
  WatchedSocket(void* context, Socket socket, const std::string& name);
  WatchedSocket(WatchedSocket&&) = default;
  WatchedSocket& operator=(WatchedSocket other) noexcept;
  ~WatchedSocket();

  explicit operator bool() const { return socket_ != nullptr; }
  void* get() const { return socket_.get(); }
  void* events() const { return events_.get(); }  // null if the socket is not watched
  // Takes the events so far and tunes new connections.
  void TakeEvents();
  // Whether the connection was lost and libzmq does not try again.
  bool IsGivenUp() const;
  // Connects again to `endpoint`, the socket's former endpoint.
  void ConnectAgain(const std::string& endpoint);

 private:
  Socket socket_;
  Socket events_;
  std::optional<std::chrono::steady_clock::time_point> lost_;  // time of the loss, until libzmq tries again
};

}  // namespace capstan
