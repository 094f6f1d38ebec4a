#include "tests/fuzz/peer_script.h"

#include <cstring>

#include "common/wire/wire_codec.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {

std::optional<Message> PeerScript::Frame() {
  InputBytes& input = messages_.random();
  const std::string_view frame = input.Take(8 * input.Below(65536));
  const std::string_view payload = input.Take(input.Below(256));
  Result<Header> header = DecodeHeader(std::as_bytes(std::span(frame)));
  if (!header.ok()) return std::nullopt;
  Message message{std::move(*header), {}};
  if (payload.empty()) return message;
  BufferRef buffer = pool_.Take();
  std::memcpy(buffer->data(), payload.data(), payload.size());
  const std::byte* data = buffer->data();
  message.payload = {std::move(buffer), data, payload.size()};
  return message;
}

std::optional<Message> PeerScript::Any() { return Arrived(messages_.Make()); }

std::optional<Message> PeerScript::Near(Header sound) {
  return Arrived(Flag() ? messages_.Spoil(std::move(sound)) : messages_.WithPayload(std::move(sound)));
}

std::optional<Message> PeerScript::Arrived(Message message) {
  std::vector<std::byte> bytes;
  if (!EncodeHeader(message.header, &bytes).ok()) return std::nullopt;
  Result<Header> header = DecodeHeader(bytes);
  Require(header.ok(), "a header that can be sent can be read");
  return Message{std::move(*header), std::move(message.payload)};
}

std::string FrameOf(const Message& message) {
  std::vector<std::byte> bytes;
  CAPSTAN_CHECK(EncodeHeader(message.header, &bytes).ok() && bytes.size() % 8 == 0 && message.payload.size < 256);
  const std::size_t words = bytes.size() / 8;
  std::string text{static_cast<char>(words >> 8), static_cast<char>(words)};
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text += static_cast<char>(message.payload.size);
  return text.append(reinterpret_cast<const char*>(message.payload.data), message.payload.size);
}

bool IsSmall(const std::vector<TensorSpec>& catalog) {
  constexpr std::uint64_t kElementsMax = 256;
  std::uint64_t elements = 0;
  for (const TensorSpec& tensor : catalog) {
    std::uint64_t count = 1;
    for (std::int64_t extent : tensor.shape) {
      if (extent < 1) return true;  // it is refused
      if (static_cast<std::uint64_t>(extent) > kElementsMax / count) return false;
      count *= static_cast<std::uint64_t>(extent);
    }
    elements += count;
  }
  return elements <= kElementsMax;
}

void CheckAnswers(const Outbox& out, std::size_t envelopes_max) {
  constexpr std::size_t kNoticesMax = 32, kLineBytesMax = std::size_t{128} << 10;
  Require(out.envelopes.size() <= envelopes_max, "a core answers with a bounded number of messages");
  Require(out.notices.size() <= kNoticesMax, "a core says a bounded number of lines");
  std::vector<std::byte> bytes;
  for (const Envelope& envelope : out.envelopes) {
    Require(EncodeHeader(envelope.message.header, &bytes).ok(), "what a core answers can be sent");
  }
  for (const Notice& notice : out.notices) {
    Require(!notice.text.empty() && notice.text.size() <= kLineBytesMax, "a line has a bounded length");
  }
}

}  // namespace capstan::fuzz
