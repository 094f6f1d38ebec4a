#include "common/wire/coalesced_frame.h"

#include <cerrno>
#include <cstring>

#include "common/wire/held_messages.h"
#include "common/wire/wire_codec.h"
#include "tests/catch.h"
#include "tests/common/wire/random_messages.h"
#include "tests/common/wire/transport_tools.h"

namespace capstan {
namespace {

using Bytes = std::vector<std::byte>;

Bytes Noise(std::size_t size) { return testing::Bytes(testing::MakePayload(size, 1)); }
Bytes CopyOf(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

// Reads a frame to its end. Returns the headers of its messages.
Result<std::vector<Bytes>> HeadersIn(std::span<const std::byte> frame) {
  CoalescedFrameReader reader(frame);
  std::vector<Bytes> headers;
  for (;;) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::optional<CoalescedMessage> next, reader.Next());
    if (!next) return headers;
    headers.push_back(CopyOf(next->header));
  }
}

TEST_CASE("messages that are added to a frame are read from it, in the same order", "[common][wire]") {
  const std::vector<std::pair<std::size_t, std::size_t>> sizes = {{100, 0}, {1, 1}, {160, 64}, {24, 1000}, {90, 40}};
  CoalescedFrame frame;
  for (int round = 0; round < 2; ++round) {  // Begin empties a frame
    frame.Begin({7}, {});
    for (const auto& [header, tail] : sizes) frame.Add({Noise(header), Noise(tail), tail == 40});
  }
  CHECK(frame.to() == PeerId{7});
  CHECK(frame.messages() == sizes.size());
  REQUIRE(CoalescedFrameReader::IsCoalesced(frame.bytes()));
  CoalescedFrameReader reader(frame.bytes());
  for (const auto& [header, tail] : sizes) {
    const Result<std::optional<CoalescedMessage>> next = reader.Next();
    REQUIRE(next.ok());
    REQUIRE(next->has_value());
    CHECK(CopyOf((*next)->header) == Noise(header));
    CHECK(CopyOf((*next)->tail) == Noise(tail));
    CHECK((*next)->refers == (tail == 40));
  }
  CHECK(!reader.Next()->has_value());
}

TEST_CASE("a full frame is never larger than a receiver takes", "[common][wire]") {
  CoalescedFrame frame;
  frame.Begin({1}, {});
  const Bytes header = Noise(100), tail = Noise(CoalescedFrame::kMessageBytesMax - header.size());
  CHECK(CoalescedFrame::Fits({header, tail, false}));
  CHECK(!CoalescedFrame::Fits({header, Noise(tail.size() + 1), false}));
  while (!frame.full()) frame.Add({header, tail, false});
  CHECK(frame.messages() == 4);
  CHECK(frame.bytes().size() <= CoalescedFrame::kBytesMax);
}

TEST_CASE("a frame of several messages that is cut is corrupt, unless a message ends there",
          "[common][wire][hostile]") {
  CoalescedFrame frame;
  frame.Begin({1}, {});
  const std::size_t mark = frame.bytes().size();
  frame.Add({Noise(50), Noise(10), false});
  const std::size_t first = frame.bytes().size();
  frame.Add({Noise(30), {}, false});
  const Bytes whole = CopyOf(frame.bytes());
  for (std::size_t size = mark; size <= whole.size(); ++size) {
    const bool at_end = size == mark || size == first || size == whole.size();
    CHECK(HeadersIn(std::span(whole).first(size)).status().code() == (at_end ? Code::kOk : Code::kCorrupt));
  }
  for (const std::size_t byte : {1, 2, 3, 5, 6, 7}) {  // sizes that reach beyond the frame
    Bytes wrong = whole;
    wrong[mark + byte] = std::byte{0x7F};
    CHECK(HeadersIn(wrong).status().code() == Code::kCorrupt);
  }
}

TEST_CASE("no header looks like a frame of several messages", "[common][wire]") {
  RandomStream random(3);
  for (std::size_t kind = 0; kind < std::variant_size_v<MessageVariant>; ++kind) {
    Bytes header;
    REQUIRE(EncodeHeader(testing::RandomHeader(kind, random), &header).ok());
    CHECK(!CoalescedFrameReader::IsCoalesced(header));
  }
  CHECK(!CoalescedFrameReader::IsCoalesced({}));
  CHECK(!CoalescedFrameReader::IsCoalesced(Noise(7)));
}

// ---- held messages -------------------------------------------------------------------------------------------------

struct Holder {
  bool Hold(std::uint64_t peer, std::size_t header_bytes, HeldMessages::Time now = {}) {
    return held.Hold({peer}, {Noise(header_bytes), {}, false}, now);
  }

  int answer = 0;                                                    // of the next sends
  std::vector<std::pair<std::uint64_t, std::vector<Bytes>>> frames;  // that were sent
  std::uint64_t dropped = 0;
  int sends = 0;
  HeldMessages held{[this](PeerId to, std::span<const std::byte> frame) {
                      ++sends;
                      if (answer == 0) frames.emplace_back(to.value, *HeadersIn(frame));
                      return answer;
                    },
                    &dropped};
};

TEST_CASE("messages are held by peer, and leave in one frame for each", "[common][wire]") {
  Holder holder;
  CHECK(holder.held.empty());
  CHECK(holder.held.Send({1}) == 0);
  for (const std::size_t size : {10, 20, 30}) {
    CHECK(holder.Hold(1, size));
    CHECK(holder.Hold(2, size + 1));
  }
  CHECK(holder.frames.empty());
  CHECK(holder.held.Send({2}) == 0);
  REQUIRE(holder.frames.size() == 1);
  CHECK(holder.frames[0].first == 2);
  CHECK(holder.frames[0].second == std::vector<Bytes>{Noise(11), Noise(21), Noise(31)});
  CHECK(holder.held.SendAll());
  REQUIRE(holder.frames.size() == 2);
  CHECK(holder.frames[1].second == std::vector<Bytes>{Noise(10), Noise(20), Noise(30)});
  CHECK(holder.held.empty());
  CHECK(!holder.held.SendAll());
}

TEST_CASE("messages that are held for long leave, and others stay", "[common][wire]") {
  Holder holder;
  const HeldMessages::Time start(std::chrono::seconds(100));
  const auto later = start + std::chrono::microseconds(5);
  CHECK(holder.Hold(1, 10, start));
  CHECK(holder.Hold(2, 10, later));
  CHECK(holder.Hold(1, 20, later));  // as old as the first one of its frame
  CHECK(holder.held.SendSince(start));
  REQUIRE(holder.frames.size() == 1);
  CHECK(holder.frames[0].first == 1);
  CHECK(holder.frames[0].second.size() == 2);
  CHECK(!holder.held.SendSince(start));
  CHECK(holder.held.SendSince(later));
}

TEST_CASE("messages of a limited number of peers are held, and no large ones", "[common][wire]") {
  Holder holder;
  CHECK(!holder.Hold(1, CoalescedFrame::kMessageBytesMax + 1));
  CHECK(holder.held.empty());
  for (std::uint64_t peer = 1; peer <= HeldMessages::kPeersMax; ++peer) CHECK(holder.Hold(peer, peer));
  CHECK(!holder.Hold(99, 10));
  CHECK(holder.Hold(3, 10));
  CHECK(holder.held.Send({3}) == 0);
  CHECK(holder.Hold(99, 10));
  CHECK(holder.held.SendAll());
  CHECK(holder.frames.size() == HeldMessages::kPeersMax + 1);
  for (const auto& [peer, headers] : holder.frames) CHECK(headers[0] == Noise(peer == 99 ? 10 : peer));
}

TEST_CASE("messages to a peer whose queue is full stay held until a retry", "[common][wire]") {
  Holder holder;
  holder.answer = EAGAIN;
  CHECK(holder.Hold(1, 10));
  CHECK(holder.held.SendAll());
  CHECK(!holder.held.SendAll());  // so that nobody spins
  CHECK(holder.Hold(1, 20));
  std::size_t accepted = 2;
  while (holder.Hold(1, 1000)) ++accepted;
  CHECK(holder.held.Send({1}) == EAGAIN);
  const int sends = holder.sends;
  CHECK(!holder.Hold(1, 10));
  CHECK(holder.sends == sends);
  holder.answer = 0;
  holder.held.Retry();
  REQUIRE(holder.frames.size() == 1);
  CHECK(holder.frames[0].second.size() == accepted);
  CHECK(holder.dropped == 0);
  CHECK(holder.Hold(1, 10));
  CHECK(holder.held.SendAll());
  CHECK(holder.frames.size() == 2);
}

TEST_CASE("messages to a peer that is gone are dropped and counted", "[common][wire]") {
  Holder holder;
  holder.answer = EHOSTUNREACH;
  for (int i = 0; i < 3; ++i) CHECK(holder.Hold(1, 10));
  CHECK(holder.held.Send({1}) == EHOSTUNREACH);
  CHECK(holder.dropped == 3);
  CHECK(holder.held.empty());
  holder.answer = EAGAIN;
  for (int i = 0; i < 2; ++i) CHECK(holder.Hold(1, 10));
  holder.held.End({1});
  holder.held.End({2});
  CHECK(holder.dropped == 5);
  CHECK(holder.held.empty());
  holder.answer = 0;
  CHECK(holder.Hold(1, 10));
  holder.held.End({1});
  CHECK(holder.dropped == 5);
  CHECK(holder.frames.size() == 1);
}

}  // namespace
}  // namespace capstan
