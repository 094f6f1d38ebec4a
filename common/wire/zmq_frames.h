// SendFrames, ReceiveFrames, TakePayload, CopyPayload: a message's frames, given to libzmq and taken from it.
//
// Kind:   functions, for the thread of the socket.
// Fails:  SendFrames returns 0, EAGAIN if the queue is full, or another error if the peer is gone. Only the first frame
//         of a message can be refused.
// Why:    payloads of some KiB and more are not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/base/buffer.h"
#include "common/wire/routing_id.h"
#include "common/wire/zmq_call.h"

namespace capstan {

inline std::span<const std::byte> ContentsOf(const zmq::message_t& frame) {
  return {frame.data<std::byte>(), frame.size()};
}

struct MessageFrames {
  zmq::message_t sender;  // its routing id, if the socket is a ROUTER
  zmq::message_t header, payload, reference;
  bool has_payload = false, refers = false;
  std::uint64_t extra = 0;  // how many frames followed that no message has
};
// Receives a whole message. `may_refer`: whether a reference may follow an empty payload. Returns nothing if no message
// is there.
std::optional<MessageFrames> ReceiveFrames(zmq::socket_ref socket, bool from_router, bool may_refer);

// Returns the frame's contents as a payload. Large contents are not copied; they outlive the frame and its socket.
Slice TakePayload(zmq::message_t* frame);
// Returns a copy of `contents`.
Slice CopyPayload(std::span<const std::byte> contents);

// Sends the frames of a message: the peer's routing id if `socket` is a ROUTER, its header, and its payload if it has
// one. With a reference, an empty frame and the reference come in place of the payload.
int SendFrames(zmq::socket_ref socket, PeerId to, std::span<const std::byte> header, const Slice& payload,
               std::span<const std::byte> reference);

}  // namespace capstan
