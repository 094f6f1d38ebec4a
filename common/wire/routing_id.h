// RoutingId: libzmq's name for a connection, and the PeerId that is made from it.
//
// Kind:   values.
#pragma once

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan {

// There are three kinds of PeerId, in separate ranges of numbers:
//   below 2^40        a peer that this process connects to: the number of its socket;
//   2^40 + 32 bits    a peer that connects to us without a routing id: the five bytes that libzmq chose for it;
//   2^63 and above    a peer that connects to us with a RandomRoutingId: eight random bytes, the first one above 127.
struct RoutingId {
  std::array<unsigned char, 8> bytes{};
  std::size_t size = 0;
};
inline constexpr std::uint64_t kUnnamedPeer = std::uint64_t{1} << 40;
inline constexpr std::uint64_t kNamedPeer = std::uint64_t{1} << 63;
inline constexpr std::size_t kUnnamedSize = 5;

inline bool CallsUs(PeerId peer) { return peer.value >= kUnnamedPeer; }

inline RoutingId RoutingIdOf(PeerId peer) {
  RoutingId id;
  id.size = peer.value >= kNamedPeer ? id.bytes.size() : kUnnamedSize;
  for (std::size_t i = 0; i < id.size; ++i) {
    id.bytes[id.size - 1 - i] = static_cast<unsigned char>(peer.value >> (8 * i));
  }
  if (id.size == kUnnamedSize) id.bytes[0] = 0;
  return id;
}

// Returns the peer with this routing id; the null PeerId if no transport of ours would have such an id.
inline PeerId PeerOf(std::span<const std::byte> id) {
  std::uint64_t value = 0;
  for (std::byte byte : id.first(std::min<std::size_t>(id.size(), 8)))
    value = value << 8 | static_cast<unsigned char>(byte);
  if (id.size() == 8 && value >= kNamedPeer) return {value};
  if (id.size() == kUnnamedSize && id[0] == std::byte{0}) return {kUnnamedPeer | value};
  return {};
}

inline RoutingId RandomRoutingId() {
  std::uint64_t value = 0;
  CAPSTAN_CHECK(getrandom(&value, sizeof value, 0) == sizeof value);
  return RoutingIdOf({value | kNamedPeer});
}

}  // namespace capstan
