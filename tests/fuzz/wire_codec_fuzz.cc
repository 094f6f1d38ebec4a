// The target reads the input as a message's header and as a frame of several messages. The bytes are refused with a
// reason, or the header can be sent and read back unchanged, and the frame is written again byte for byte.
#include "common/wire/coalesced_frame.h"
#include "common/wire/header_seal.h"
#include "common/wire/wire_codec.h"
#include "tests/common/wire/random_messages.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

void CheckOpenHeader(std::span<const std::byte> bytes) {
  const Result<std::span<const std::byte>> header = OpenHeader(bytes, 0);
  if (!header.ok()) return RequireReason(header.status(), "header");
  std::vector<std::byte> sealed(header->begin(), header->end());
  SealHeader(0, &sealed);
  Require(std::ranges::equal(sealed, bytes), "a header that is opened was sealed");
}

void CheckCoalesced(std::span<const std::byte> bytes) {
  if (!CoalescedFrameReader::IsCoalesced(bytes)) return;
  CoalescedFrameReader reader(bytes);
  CoalescedFrame again;
  again.Begin({1}, {});
  for (;;) {
    const Result<std::optional<CoalescedMessage>> next = reader.Next();
    if (!next.ok()) return RequireReason(next.status(), "several messages");
    if (!next->has_value()) break;
    again.Add(**next);
  }
  Require(std::ranges::equal(again.bytes(), bytes), "a frame that is read to its end was made of what was read");
}

void RunWireCodec(std::string_view text) {
  constexpr std::size_t kInputBytesMax = 1 << 20;  // texts that share words may grow a little when written again
  if (text.size() > kInputBytesMax) return;
  const auto bytes = std::as_bytes(std::span(text));
  CheckOpenHeader(bytes);
  CheckCoalesced(bytes);
  Result<Header> header = DecodeHeader(bytes);
  if (!header.ok()) return RequireReason(header.status(), "");
  std::vector<std::byte> encoded;
  Require(EncodeHeader(*header, &encoded).ok(), "a header that is accepted can be sent");
  Result<Header> again = DecodeHeader(encoded);
  Require(again.ok() && testing::Same(*header, *again), "a header that is sent comes back as it was");
}

const Registered wire_codec_target({"wire_codec", RunWireCodec});

}  // namespace
}  // namespace capstan::fuzz
