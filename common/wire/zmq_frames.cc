#include "common/wire/zmq_frames.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/base/status.h"

namespace capstan {
namespace {

// Received payloads below this size are copied: libzmq's receive buffer has this size, and a smaller frame is a part of
// the buffer and would keep all of it alive.
constexpr std::size_t kPayloadCopiedBelow = 8192;
constexpr std::size_t kSendCopiedBelow = 1024;  // below this, copying is cheaper than sharing a frame

Slice Whole(BufferRef owner, std::size_t size) {
  const std::byte* start = owner->data();
  return {std::move(owner), start, size};
}

void ReleasePayload(void* /*data*/, void* hint) { BufferRef::Adopt(static_cast<Buffer*>(hint)); }

int SendFrame(zmq::socket_ref socket, std::span<const std::byte> bytes, zmq::send_flags flags) {
  return CallZmq([&] {
    return socket.send(zmq::buffer(bytes.data(), bytes.size()), flags | zmq::send_flags::dontwait).has_value();
  });
}

// Sends the last frame of a message.
int SendPayload(zmq::socket_ref socket, const Slice& payload) {
  if (payload.size < kSendCopiedBelow || !payload.owner)
    return SendFrame(socket, payload.bytes(), zmq::send_flags::none);
  zmq::message_t message;
  Buffer* owner = BufferRef(payload.owner).Detach();
  const int failure = CallZmq([&] {
    message = zmq::message_t(const_cast<std::byte*>(payload.data), payload.size, &ReleasePayload, owner);
    return true;
  });
  if (failure != 0) {
    BufferRef::Adopt(owner);
    return failure;
  }
  return CallZmq([&] { return socket.send(message, zmq::send_flags::dontwait).has_value(); });
}

}  // namespace

std::optional<MessageFrames> ReceiveFrames(zmq::socket_ref socket, bool from_router, bool may_refer) {
  MessageFrames frames;
  if (!ReceiveNow(socket, from_router ? &frames.sender : &frames.header)) return std::nullopt;
  bool more = from_router ? frames.sender.more() && ReceiveNow(socket, &frames.header) && frames.header.more()
                          : frames.header.more();
  frames.has_payload = more && ReceiveNow(socket, &frames.payload);
  more = frames.has_payload && frames.payload.more();
  frames.refers = more && may_refer && frames.payload.size() == 0;
  if (frames.refers) more = ReceiveNow(socket, &frames.reference) && frames.reference.more();
  for (; more; ++frames.extra) {
    zmq::message_t extra;
    more = ReceiveNow(socket, &extra) && extra.more();
  }
  return frames;
}

Slice CopyPayload(std::span<const std::byte> contents) {
  const std::size_t size = contents.size();
  if (size == 0) return {};
  auto* copy = static_cast<std::byte*>(std::malloc(size));
  CAPSTAN_CHECK(copy != nullptr);
  std::memcpy(copy, contents.data(), size);
  return Whole(WrapForeign(copy, size, &std::free, copy), size);
}

Slice TakePayload(zmq::message_t* frame) {
  const std::size_t size = frame->size();
  if (size < kPayloadCopiedBelow) return CopyPayload(ContentsOf(*frame));
  auto* kept = new zmq::message_t(std::move(*frame));
  const auto release = [](void* context) { delete static_cast<zmq::message_t*>(context); };
  return Whole(WrapForeign(kept->data<std::byte>(), size, release, kept), size);
}

int SendFrames(zmq::socket_ref socket, PeerId to, std::span<const std::byte> header, const Slice& payload,
               std::span<const std::byte> reference) {
  int failure = 0;
  if (CallsUs(to)) {
    const RoutingId id = RoutingIdOf(to);
    failure = SendFrame(socket, std::as_bytes(std::span(id.bytes.data(), id.size)), zmq::send_flags::sndmore);
  }
  const zmq::send_flags flags = payload.empty() ? zmq::send_flags::none : zmq::send_flags::sndmore;
  if (failure == 0) failure = SendFrame(socket, header, flags);
  if (failure != 0 || payload.empty()) return failure;
  if (reference.empty()) return SendPayload(socket, payload);
  failure = SendFrame(socket, {}, zmq::send_flags::sndmore);
  return failure != 0 ? failure : SendFrame(socket, reference, zmq::send_flags::none);
}

}  // namespace capstan
