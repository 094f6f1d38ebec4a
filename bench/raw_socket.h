// RawSocket: a ZeroMQ context with one socket, for benchmarks that measure ZeroMQ alone.
//
// Kind:   owned by one thread.
#pragma once

#include <unistd.h>
#include <zmq.h>

#include <array>
#include <cstddef>
#include <string>

#include "bench/bench_cluster.h"
#include "common/base/status.h"

namespace capstan::bench {

class RawSocket {
 public:
  // `queued`: messages that may wait in each direction before a sender blocks.
  RawSocket(int type, int queued) : context_(zmq_ctx_new()), socket_(zmq_socket(context_, type)) {
    const int none = 0;
    zmq_setsockopt(socket_, ZMQ_SNDHWM, &queued, sizeof queued);
    zmq_setsockopt(socket_, ZMQ_RCVHWM, &queued, sizeof queued);
    zmq_setsockopt(socket_, ZMQ_LINGER, &none, sizeof none);
  }
  ~RawSocket() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  void* get() const { return socket_; }

  // Returns the bound address. An ipc address is abstract, so no file is left behind.
  Result<std::string> Bind(Carrier carrier) {
    const bool local = carrier == Carrier::kIpc || carrier == Carrier::kShared;
    const std::string any = local ? "ipc://@capstan-bench-" + std::to_string(getpid()) : "tcp://127.0.0.1:*";
    std::array<char, 256> bound{};
    std::size_t size = bound.size();
    if (zmq_bind(socket_, any.c_str()) != 0) return Invalid("raw ZeroMQ cannot bind " + any);
    zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, bound.data(), &size);
    return std::string(bound.data());
  }
  Status Connect(const std::string& address) {
    if (zmq_connect(socket_, address.c_str()) == 0) return {};
    return Invalid("raw ZeroMQ cannot connect to " + address);
  }

  // Sends without a copy: `bytes` must stay valid until this object is destroyed.
  void SendInPlace(std::byte* bytes, std::size_t size, int flags) {
    zmq_msg_t message;
    zmq_msg_init_data(
        &message, bytes, size, [](void*, void*) {}, nullptr);
    if (zmq_msg_send(&message, socket_, flags) < 0) zmq_msg_close(&message);
  }

 private:
  void* context_;
  void* socket_;
};

// One received frame.
class RawFrame {
 public:
  RawFrame() { zmq_msg_init(&message_); }
  ~RawFrame() { zmq_msg_close(&message_); }
  RawFrame(const RawFrame&) = delete;
  RawFrame& operator=(const RawFrame&) = delete;

  // Waits for a frame. Returns its size in bytes, or a negative number on failure.
  int Receive(const RawSocket& socket) { return zmq_msg_recv(&message_, socket.get(), 0); }
  bool more() const { return zmq_msg_more(&message_) != 0; }
  const std::byte* data() { return static_cast<const std::byte*>(zmq_msg_data(&message_)); }
  std::size_t size() const { return zmq_msg_size(&message_); }

 private:
  zmq_msg_t message_;
};

}  // namespace capstan::bench
