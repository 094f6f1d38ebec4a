// WatchedSocket: a ZeroMQ socket, and the events of its connections.
//
// Kind:   owned by one thread.
// Why:    connections within one machine are tuned when they are made. And libzmq does not connect again after it has
//         received bytes that break its protocol: one damaged byte would separate two processes for good.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/wire/zmq_call.h"
#include "common/wire/zmq_transport.h"

namespace capstan {

// Why the two ends of a connection did not come to an agreement.
enum class HandshakeFailure : std::uint8_t {
  kRefused,    // the other end does not admit this process's key
  kMechanism,  // one end has keys and the other one has none
  kClosed,     // the other end closes the connection during the handshake, for seconds: it has another key
};

class WatchedSocket {
 public:
  WatchedSocket() = default;
  // `name`: a text that no other socket of the context has. `counters` outlives this.
  WatchedSocket(zmq::context_t* context, zmq::socket_t socket, const std::string& name, TransportCounters* counters);
  WatchedSocket(WatchedSocket&&) = default;
  WatchedSocket& operator=(WatchedSocket&& other) noexcept;
  ~WatchedSocket();

  explicit operator bool() const { return static_cast<bool>(socket_); }
  zmq::socket_ref get() { return socket_; }
  zmq::socket_ref events() { return events_; }  // null if the socket is not watched
  // Takes the events that have arrived and tunes new connections within this machine.
  void TakeEvents();
  // Returns why no connection is made, once for each reason, until one has been made.
  std::optional<HandshakeFailure> TakeFailure() { return std::exchange(failure_, std::nullopt); }
  // Whether the peer has closed a handshake since `time`, and none has succeeded after that.
  bool WasClosedSince(std::chrono::steady_clock::time_point time) const { return last_close_ && *last_close_ > time; }
  // Whether a connection that had been made broke since the last call.
  bool TakeBreak() { return std::exchange(broke_, false); }
  // Whether the connection was lost and libzmq has not begun to connect again within a short time.
  bool IsGivenUp() const;
  // Connects again to `endpoint`, to which the socket was connected before.
  void ConnectAgain(const std::string& endpoint);

 private:
  void TakeHandshake(std::uint16_t kind, std::int32_t detail);

  TransportCounters* counters_ = nullptr;
  zmq::socket_t socket_;
  zmq::socket_t events_;  // not a monitor_t, which hides its descriptor and bounds its queue
  std::optional<std::chrono::steady_clock::time_point> lost_;  // time of the loss, until libzmq tries again
  std::optional<HandshakeFailure> failure_;                    // not taken yet
  bool was_connected_ = false;                                 // whether a handshake has succeeded
  bool broke_ = false;                                         // not taken yet
  // The first and the last of several handshakes during which the peer closed the connection, one soon after the other;
  // until one succeeds.
  std::optional<std::chrono::steady_clock::time_point> first_close_, last_close_;
};

}  // namespace capstan
