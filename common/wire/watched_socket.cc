#include "common/wire/watched_socket.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "common/wire/local_connection.h"

namespace capstan {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRetryStartsWithin = std::chrono::milliseconds(200);  // of a loss, if libzmq connects again at all
constexpr int kWatched = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED;

}  // namespace

WatchedSocket::WatchedSocket(zmq::context_t* context, zmq::socket_t socket, const std::string& name)
    : socket_(std::move(socket)) {
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

WatchedSocket& WatchedSocket::operator=(WatchedSocket other) noexcept {
  socket_.swap(other.socket_);
  events_.swap(other.events_);
  lost_.swap(other.lost_);
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
    lost_.reset();
    if (kind == ZMQ_EVENT_DISCONNECTED) lost_ = Clock::now();
    if (kind == ZMQ_EVENT_CONNECTED || kind == ZMQ_EVENT_ACCEPTED) TuneLocalConnection(descriptor);
  }
}

bool WatchedSocket::IsGivenUp() const { return lost_ && Clock::now() - *lost_ >= kRetryStartsWithin; }

void WatchedSocket::ConnectAgain(const std::string& endpoint) {
  lost_.reset();
  CallZmq([&] { return socket_.disconnect(endpoint), true; });  // removes what is left of the old connection
  if (CallZmq([&] { return socket_.connect(endpoint), true; }) != 0) lost_ = Clock::now();
}

}  // namespace capstan
