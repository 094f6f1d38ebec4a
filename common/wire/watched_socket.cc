#include "common/wire/watched_socket.h"

#include <zmq.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "common/wire/local_connection.h"

namespace capstan {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRetryStartsWithin = std::chrono::milliseconds(200);  // after a loss, if libzmq tries again at all
constexpr int kWatched = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED;

}  // namespace

void SocketCloser::operator()(void* socket) const { zmq_close(socket); }

WatchedSocket::WatchedSocket(void* context, Socket socket, const std::string& name) : socket_(std::move(socket)) {
  const std::string address = "inproc://" + name;
  if (zmq_socket_monitor(socket_.get(), address.c_str(), kWatched) != 0) return;
  events_.reset(zmq_socket(context, ZMQ_PAIR));
  const int unlimited = 0;  // a full queue would block libzmq's thread
  if (events_ && zmq_setsockopt(events_.get(), ZMQ_RCVHWM, &unlimited, sizeof unlimited) == 0 &&
      zmq_connect(events_.get(), address.c_str()) == 0) {
    TakeEvents();  // libzmq wakes a reader only after the reader has found the queue empty once
    return;
  }
  zmq_socket_monitor(socket_.get(), nullptr, 0);
  events_.reset();
}

WatchedSocket& WatchedSocket::operator=(WatchedSocket other) noexcept {
  socket_.swap(other.socket_);
  events_.swap(other.events_);
  lost_.swap(other.lost_);
  return *this;
}

WatchedSocket::~WatchedSocket() {
  if (events_) zmq_socket_monitor(socket_.get(), nullptr, 0);  // must precede the closing of events_
}

void WatchedSocket::TakeEvents() {
  if (!events_) return;
  // An event is its number (16 bits) and a value (32 bits), mostly a descriptor, then a frame with the address.
  std::array<std::byte, 6> event;
  while (zmq_recv(events_.get(), event.data(), event.size(), ZMQ_DONTWAIT) == static_cast<int>(event.size())) {
    std::uint16_t kind = 0;
    std::int32_t descriptor = -1;
    std::memcpy(&kind, event.data(), sizeof kind);
    std::memcpy(&descriptor, event.data() + sizeof kind, sizeof descriptor);
    lost_.reset();
    if (kind == ZMQ_EVENT_DISCONNECTED) lost_ = Clock::now();
    if (kind == ZMQ_EVENT_CONNECTED || kind == ZMQ_EVENT_ACCEPTED) TuneLocalConnection(descriptor);
    zmq_recv(events_.get(), nullptr, 0, ZMQ_DONTWAIT);
  }
}

bool WatchedSocket::IsGivenUp() const { return lost_ && Clock::now() - *lost_ >= kRetryStartsWithin; }

void WatchedSocket::ConnectAgain(const std::string& endpoint) {
  lost_.reset();
  zmq_disconnect(socket_.get(), endpoint.c_str());  // removes what is left of the old connection
  if (zmq_connect(socket_.get(), endpoint.c_str()) != 0) lost_ = Clock::now();
}

}  // namespace capstan
