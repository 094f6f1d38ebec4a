// Stranger: a ZeroMQ socket that sends arbitrary frames; and the bytes to send.
#pragma once

#include <zmq.h>

#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/wire/header_seal.h"
#include "common/wire/wire_codec.h"
#include "tests/catch.h"

namespace capstan::testing {

using Frames = std::vector<std::vector<std::byte>>;

class Stranger {
 public:
  Stranger(void* context, const std::string& endpoint, const std::string& routing_id = "")
      : socket_(zmq_socket(context, ZMQ_DEALER)) {
    const int linger = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof linger);
    if (!routing_id.empty()) zmq_setsockopt(socket_, ZMQ_ROUTING_ID, routing_id.data(), routing_id.size());
    REQUIRE(zmq_connect(socket_, endpoint.c_str()) == 0);
  }
  ~Stranger() { zmq_close(socket_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void Send(const Frames& frames) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const int flags = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
      REQUIRE(zmq_send(socket_, frames[i].data(), frames[i].size(), flags) >= 0);
    }
  }
  // Returns a message's first frame; nothing if none has arrived.
  std::vector<std::byte> TryReceive() {
    std::vector<std::byte> frame(1 << 16);
    const int size = zmq_recv(socket_, frame.data(), frame.size(), ZMQ_DONTWAIT);
    frame.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return frame;
  }

 private:
  void* socket_;
};

struct ZmqContext {
  ~ZmqContext() { zmq_ctx_term(context); }
  void* context = zmq_ctx_new();
};

inline std::vector<std::byte> Sealed(const Header& header, std::size_t payload_bytes = 0) {
  std::vector<std::byte> bytes;
  REQUIRE(EncodeHeader(header, &bytes).ok());
  SealHeader(payload_bytes, &bytes);
  return bytes;
}

inline std::vector<std::byte> Noise(std::size_t size, RandomStream& random) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next());
  return bytes;
}

}  // namespace capstan::testing
