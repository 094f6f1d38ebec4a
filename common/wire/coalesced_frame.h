// CoalescedFrame, CoalescedFrameReader: several small messages to one peer, in one frame.
//
// Kind:   values; a CoalescedFrameReader refers to its frame.
// Limits: CoalescedFrame::kMessageBytesMax and kBytesMax.
// Fails:  CoalescedFrameReader::Next: kCorrupt if the frame ends within a message. Headers are sealed against other
//         damage.
// Why:    a frame wakes a thread of libzmq on both sides, which for a small message costs more than the rest.
//
// The frame begins with a mark of eight bytes. Each message follows: the size of its sealed header and that of its
// tail, 32 bits each, little endian; the header; and the tail. The tail is the payload, or a reference to it if the
// highest bit of its size is set.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan {

struct CoalescedMessage {
  std::span<const std::byte> header;  // sealed
  std::span<const std::byte> tail;    // its payload, or a reference to it; empty: it has none
  bool refers = false;
};

class CoalescedFrame {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kMessageBytesMax = 1024;  // header and tail of a message that may be added
  static constexpr std::size_t kFullAboveBytes = 4096;
  static constexpr std::size_t kBytesMax = kFullAboveBytes + 8 + kMessageBytesMax;  // of the whole frame

  static bool Fits(const CoalescedMessage& message) {
    return message.header.size() + message.tail.size() <= kMessageBytesMax;
  }

  // Begins an empty frame.
  void Begin(PeerId to, Time now);
  void Add(const CoalescedMessage& message);
  bool full() const { return bytes_.size() > kFullAboveBytes; }
  // Notes that the peer's queue was full when the frame was sent.
  void Block() { is_blocked_ = true; }
  bool is_blocked() const { return is_blocked_; }
  PeerId to() const { return to_; }
  Time begun() const { return begun_; }
  std::size_t messages() const { return messages_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  PeerId to_;
  Time begun_{};
  bool is_blocked_ = false;
  std::size_t messages_ = 0;
  std::vector<std::byte> bytes_;  // keeps its capacity
};

class CoalescedFrameReader {
 public:
  // Whether a frame begins as a coalesced one does. No encoded header does.
  static bool IsCoalesced(std::span<const std::byte> frame);

  // `frame`: a coalesced one.
  explicit CoalescedFrameReader(std::span<const std::byte> frame);
  // Returns the next message; nothing after the last one.
  Result<std::optional<CoalescedMessage>> Next();

 private:
  std::span<const std::byte> rest_;
};

}  // namespace capstan
