#include "common/wire/coalesced_frame.h"

#include <array>
#include <bit>
#include <cstring>

namespace capstan {
namespace {

static_assert(std::endian::native == std::endian::little);

// A header begins with the number of its segments less one, which is 0.
constexpr std::array<char, 8> kMark = {'C', 'A', 'P', 'S', 'T', 'A', 'N', '+'};
static_assert(kMark[0] != 0);

constexpr std::uint32_t kRefers = 0x80000000;

}  // namespace

void CoalescedFrame::Begin(PeerId to, Time now) {
  to_ = to;
  begun_ = now;
  is_blocked_ = false;
  messages_ = 0;
  bytes_.resize(kMark.size());
  std::memcpy(bytes_.data(), kMark.data(), kMark.size());
}

void CoalescedFrame::Add(const CoalescedMessage& message) {
  const auto add = [this](const void* data, std::size_t size) {
    const auto* const bytes = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + size);
  };
  const std::array<std::uint32_t, 2> sizes = {
      static_cast<std::uint32_t>(message.header.size()),
      static_cast<std::uint32_t>(message.tail.size()) | (message.refers ? kRefers : 0)};
  add(sizes.data(), sizeof sizes);
  add(message.header.data(), message.header.size());
  add(message.tail.data(), message.tail.size());
  ++messages_;
}

bool CoalescedFrameReader::IsCoalesced(std::span<const std::byte> frame) {
  return frame.size() >= kMark.size() && std::memcmp(frame.data(), kMark.data(), kMark.size()) == 0;
}

CoalescedFrameReader::CoalescedFrameReader(std::span<const std::byte> frame) : rest_(frame.subspan(kMark.size())) {}

Result<std::optional<CoalescedMessage>> CoalescedFrameReader::Next() {
  if (rest_.empty()) return std::optional<CoalescedMessage>();
  std::array<std::uint32_t, 2> sizes{};
  if (rest_.size() < sizeof sizes) {
    return Corrupt("a frame of several messages ends within the sizes of one: " + std::to_string(rest_.size()) +
                   " bytes are left, and they have " + std::to_string(sizeof sizes));
  }
  std::memcpy(sizes.data(), rest_.data(), sizeof sizes);
  rest_ = rest_.subspan(sizeof sizes);
  const std::size_t header = sizes[0], tail = sizes[1] & ~kRefers;
  if (header + tail > rest_.size()) {
    return Corrupt("a frame of several messages ends within one: " + std::to_string(rest_.size()) +
                   " bytes are left, its header has " + std::to_string(header) +
                   ", and its payload or the reference to it has " + std::to_string(tail));
  }
  const CoalescedMessage message{rest_.first(header), rest_.subspan(header, tail), (sizes[1] & kRefers) != 0};
  rest_ = rest_.subspan(header + tail);
  return std::optional(message);
}

}  // namespace capstan
