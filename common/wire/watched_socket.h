// WatchedSocket: a ZeroMQ socket, and word of the connections it makes and accepts.
//
// Kind:   owned by one thread.
// Why:    a connection within one machine is tuned when it comes up. And libzmq does not try again when what the other
//         side says breaks its protocol: one damaged byte would cut two processes off from each other for good.
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
  // `name`: of its own in this context.
  WatchedSocket(void* context, Socket socket, const std::string& name);
  WatchedSocket(WatchedSocket&&) = default;
  WatchedSocket& operator=(WatchedSocket other) noexcept;
  ~WatchedSocket();

  explicit operator bool() const { return socket_ != nullptr; }
  void* get() const { return socket_.get(); }
  void* events() const { return events_.get(); }  // null: not watched
  // Takes what has happened so far; new connections are tuned.
  void TakeEvents();
  // Whether the connection was lost and libzmq does not try again.
  bool IsGivenUp() const;
  // To `endpoint`, which it was connected to.
  void ConnectAgain(const std::string& endpoint);

 private:
  Socket socket_;
  Socket events_;
  std::optional<std::chrono::steady_clock::time_point> lost_;  // and not tried again since
};

}  // namespace capstan
