#include "common/wire/watched_socket.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "common/wire/local_connection.h"

namespace capstan {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRetryStartsWithin = std::chrono::milliseconds(200);  // of a loss, if libzmq connects again at all
constexpr int kWatched = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED |
                         ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                         ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
// How long a peer may close each handshake before that is a failure, and how soon one follows the other: it may be
// ending, or a proxy may stand before a process that is being started.
constexpr auto kClosesFor = std::chrono::seconds(3), kClosesWithin = std::chrono::seconds(2);

}  // namespace

WatchedSocket::WatchedSocket(zmq::context_t* context, zmq::socket_t socket, const std::string& name,
                             TransportCounters* counters)
    : counters_(counters), socket_(std::move(socket)) {
  const std::string address = "inproc://" + name;
  if (zmq_socket_monitor(socket_.handle(), address.c_str(), kWatched) != 0) return;
  const int failure = CallZmq([&] {
    events_ = zmq::socket_t(*context, zmq::socket_type::pair);
    events_.set(zmq::sockopt::rcvhwm, 0);  // unlimited: a full queue would block libzmq's thread
    events_.connect(address);
    return true;
  });
  if (failure == 0) {
    TakeEvents();  // libzmq wakes a reader only after the reader has found the queue empty once
    return;
  }
  zmq_socket_monitor(socket_.handle(), nullptr, 0);
  events_.close();
}

WatchedSocket& WatchedSocket::operator=(WatchedSocket&& other) noexcept {
  WatchedSocket before(std::move(other));
  std::swap(counters_, before.counters_);
  socket_.swap(before.socket_);
  events_.swap(before.events_);
  lost_.swap(before.lost_);
  std::swap(failure_, before.failure_);
  std::swap(was_connected_, before.was_connected_);
  std::swap(broke_, before.broke_);
  std::swap(first_close_, before.first_close_);
  std::swap(last_close_, before.last_close_);
  return *this;
}

WatchedSocket::~WatchedSocket() {
  if (events_) zmq_socket_monitor(socket_.handle(), nullptr, 0);  // must precede the closing of events_
}

void WatchedSocket::TakeEvents() {
  if (!events_) return;
  // An event is two frames: its number (16 bits) with a value (32 bits), mostly a descriptor; then an address.
  zmq::message_t frame;
  while (ReceiveNow(events_, &frame)) {
    std::uint16_t kind = 0;
    std::int32_t descriptor = -1;
    if (!frame.more() || frame.size() != sizeof kind + sizeof descriptor) continue;  // this frame is an address
    std::memcpy(&kind, frame.data(), sizeof kind);
    std::memcpy(&descriptor, frame.data<char>() + sizeof kind, sizeof descriptor);
    if (kind == ZMQ_EVENT_DISCONNECTED) {
      lost_ = Clock::now();
      ++counters_->connections_lost;
      broke_ = broke_ || was_connected_;
    } else if (kind == ZMQ_EVENT_CONNECT_RETRIED) {
      lost_.reset();
    } else if (kind == ZMQ_EVENT_CONNECTED || kind == ZMQ_EVENT_ACCEPTED) {
      lost_.reset();
      TuneLocalConnection(descriptor);
    } else {
      TakeHandshake(kind, descriptor);
    }
  }
}

void WatchedSocket::TakeHandshake(std::uint16_t kind, std::int32_t detail) {
  if (kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
    ++counters_->connections_made;
    was_connected_ = true;
    failure_.reset();
    last_close_.reset();
  }
  const Clock::time_point now = Clock::now();
  const bool closed = kind == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
  if (closed) {
    if (!last_close_ || now - *last_close_ > kClosesWithin) first_close_ = now;
    last_close_ = now;
  }
  // Once the right process has answered, another one at its address is a stranger who will go.
  if (was_connected_) return;
  if (kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) failure_ = HandshakeFailure::kRefused;
  if (kind == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL && detail == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) {
    failure_ = HandshakeFailure::kMechanism;
  }
  if (closed && now - *first_close_ >= kClosesFor) failure_ = HandshakeFailure::kClosed;
}

bool WatchedSocket::IsGivenUp() const { return lost_ && Clock::now() - *lost_ >= kRetryStartsWithin; }

void WatchedSocket::ConnectAgain(const std::string& endpoint) {
  lost_.reset();
  CallZmq([&] { return socket_.disconnect(endpoint), true; });  // removes what is left of the old connection
  if (CallZmq([&] { return socket_.connect(endpoint), true; }) != 0) lost_ = Clock::now();
}

}  // namespace capstan
