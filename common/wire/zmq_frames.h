// SendFrame, SendPayload, TakePayload: a message's frames, given to libzmq and taken from it.
//
// Kind:   functions, for the thread of the socket.
// Fails:  they return 0, EAGAIN if the queue is full, or another error if the peer is gone. Only the first frame of a
//         message can be refused.
// Why:    payloads of some KiB and more are not copied.
#pragma once

#include <cstddef>
#include <span>

#include "common/base/buffer.h"
#include "common/wire/zmq_call.h"

namespace capstan {

inline std::span<const std::byte> ContentsOf(const zmq::message_t& frame) {
  return {frame.data<std::byte>(), frame.size()};
}

// Returns the frame's contents as a payload. Large contents are not copied; they outlive the frame and its socket.
Slice TakePayload(zmq::message_t* frame);

int SendFrame(zmq::socket_ref socket, std::span<const std::byte> bytes, zmq::send_flags flags);
// Sends the last frame of a message.
int SendPayload(zmq::socket_ref socket, const Slice& payload);

}  // namespace capstan
