// WatchedSocket: a ZeroMQ socket, and the events of its connections.
//
// Kind:   owned by one thread.
// Why:    connections within one machine are tuned when they are made. And libzmq does not connect again after it has
//         received bytes that break its protocol: one damaged byte would separate two processes for good.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/wire/zmq_call.h"

namespace capstan {

class WatchedSocket {
 public:
  WatchedSocket() = default;
  // `name`: a text that no other socket of the context has.
  WatchedSocket(zmq::context_t* context, zmq::socket_t socket, const std::string& name);
  WatchedSocket(WatchedSocket&&) = default;
  WatchedSocket& operator=(WatchedSocket other) noexcept;
  ~WatchedSocket();

  explicit operator bool() const { return static_cast<bool>(socket_); }
  zmq::socket_ref get() { return socket_; }
  zmq::socket_ref events() { return events_; }  // null if the socket is not watched
  // Takes the events that have arrived and tunes new connections within this machine.
  void TakeEvents();
  // Whether the connection was lost and libzmq has not begun to connect again within a short time.
  bool IsGivenUp() const;
  // Connects again to `endpoint`, to which the socket was connected before.
  void ConnectAgain(const std::string& endpoint);

 private:
  zmq::socket_t socket_;
  zmq::socket_t events_;  // not a monitor_t, which hides its descriptor and bounds its queue
  std::optional<std::chrono::steady_clock::time_point> lost_;  // time of the loss, until libzmq tries again
};

}  // namespace capstan
