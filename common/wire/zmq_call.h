// CallZmq: a call of cppzmq, the C++ interface of libzmq, whose exceptions end here. ReceiveNow and DescriptorOf:
// two such calls.
//
// Kind:   functions; the folder's other files see zmq.hpp through this header.
#pragma once

#include <zmq.hpp>
#include <cerrno>

#include "common/base/status.h"

namespace capstan {

// Runs `call`, again if a signal interrupts it. `call` returns false if the socket is not ready. CallZmq returns 0,
// EAGAIN for a socket that is not ready, or the error of the exception.
template <class Call>
int CallZmq(Call call) {
  for (;;) {
    try {
      return call() ? 0 : EAGAIN;
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) return error.num();
    }
  }
}

// Receives a frame if one is there. Returns whether it did.
inline bool ReceiveNow(zmq::socket_ref socket, zmq::message_t* frame) {
  return CallZmq([&] { return socket.recv(*frame, zmq::recv_flags::dontwait).has_value(); }) == 0;
}

// Returns a descriptor that becomes readable when the socket may have something to receive.
inline int DescriptorOf(zmq::socket_ref socket) {
  int descriptor = -1;
  CAPSTAN_CHECK(CallZmq([&] { return descriptor = socket.get(zmq::sockopt::fd), true; }) == 0);
  return descriptor;
}

}  // namespace capstan
