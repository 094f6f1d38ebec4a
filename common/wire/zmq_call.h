// CallZmq: a call of cppzmq, the C++ interface of libzmq, whose exceptions end here.
//
// Kind:   a function; the folder's other files see zmq.hpp through this header.
#pragma once

#include <zmq.hpp>
#include <cerrno>

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

}  // namespace capstan
