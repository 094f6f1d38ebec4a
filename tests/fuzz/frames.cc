#include "tests/fuzz/frames.h"

#include <cstring>
#include <span>

#include "common/hash.h"
#include "common/wire_codec.h"
#include "server/storage/owned_slice.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {

namespace {

constexpr std::size_t kPrefixBytes = 4;  // flags, two bytes of the header's size, the payload's size

std::size_t ByteAt(std::string_view bytes, std::size_t index) { return static_cast<unsigned char>(bytes[index]); }

void SetPayloadHash(Message* message) {
  const std::uint64_t hash = Hash64(message->payload.bytes());
  if (auto* push = std::get_if<Push>(&message->header)) push->payload_hash = hash;
  if (auto* assign = std::get_if<Assign>(&message->header)) assign->payload_hash = hash;
  if (auto* weights = std::get_if<Weights>(&message->header)) weights->payload_hash = hash;
  if (auto* fetched = std::get_if<Fetched>(&message->header)) fetched->payload_hash = hash;
}

}  // namespace

std::vector<Frame> FramesIn(std::string_view bytes) {
  std::vector<Frame> frames;
  while (bytes.size() >= kPrefixBytes && frames.size() < kFramesMax) {
    const auto flags = static_cast<std::uint8_t>(bytes[0]);
    const std::size_t header_bytes = ByteAt(bytes, 1) | ByteAt(bytes, 2) << 8, payload_bytes = ByteAt(bytes, 3);
    bytes.remove_prefix(kPrefixBytes);
    const std::string_view header_text = bytes.substr(0, header_bytes);
    bytes.remove_prefix(header_text.size());
    const std::string_view payload = bytes.substr(0, payload_bytes);
    bytes.remove_prefix(payload.size());
    Result<Header> header = DecodeHeader(std::as_bytes(std::span(header_text)));
    if (!header.ok()) continue;
    Frame frame{static_cast<std::uint8_t>(flags & kFramePeers), (flags & kFrameLater) != 0, {}};
    frame.message.header = std::move(header).value();
    if (!payload.empty()) frame.message.payload = server::SliceOf(std::string(payload));
    if ((flags & kFrameHashed) != 0) SetPayloadHash(&frame.message);
    frames.push_back(std::move(frame));
  }
  return frames;
}

std::string FrameOf(std::uint8_t flags, const Header& header, std::string_view payload) {
  std::vector<std::byte> encoded;
  CAPSTAN_CHECK(EncodeHeader(header, &encoded).ok());
  CAPSTAN_CHECK(encoded.size() <= 0xFFFF && payload.size() <= 0xFF);
  std::string frame;
  for (const std::size_t byte : {std::size_t{flags}, encoded.size() & 0xFF, encoded.size() >> 8, payload.size()}) {
    frame += static_cast<char>(byte);
  }
  return frame.append(reinterpret_cast<const char*>(encoded.data()), encoded.size()).append(payload);
}

void RequireSendable(const std::vector<Envelope>& envelopes) {
  std::vector<std::byte> encoded;
  for (const Envelope& envelope : envelopes) {
    const Status status = EncodeHeader(envelope.message.header, &encoded);
    Require(status.ok(), "a core sends what can be encoded: " + status.message());
  }
}

}  // namespace capstan::fuzz
