// PayloadsInFlight: which payloads the transport was given and has not sent yet: how much memory each peer holds by not
// reading.
//
// Kind:   owned by a loop's thread; any thread may drop the last reference to a tracked payload.
// Limits: RoomFor says what a peer may still be sent: kPeerBytesMax in flight to each peer, and `bytes_max` to all of
//         them, where a payload that several peers are sent counts once. Beyond that a peer gets one payload at a time.
//         Payloads below kTrackedFrom bytes do not count, because the transport copies them.
// Why:    a block of weights that waits in a peer's queue keeps its version in memory. A peer that pulls every version
//         and reads none would otherwise take all memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "common/base/buffer.h"
#include "common/base/types.h"
#include "common/wire/line_pace.h"

namespace capstan::server {

class PayloadsInFlight {
 public:
  // As many bytes as the requests of an honest peer may have unanswered, so that such a peer never waits for this.
  static constexpr std::uint64_t kPeerBytesMax = LinePace::kMostWindow;
  static constexpr std::uint64_t kSpareBytes = std::uint64_t{256} << 20;  // to all peers, if LimitTo was not called
  static constexpr std::size_t kTrackedFrom = 1024;

  PayloadsInFlight();
  ~PayloadsInFlight();
  PayloadsInFlight(const PayloadsInFlight&) = delete;
  PayloadsInFlight& operator=(const PayloadsInFlight&) = delete;

  // Limits what is in flight to all peers together.
  void LimitTo(std::uint64_t bytes) { bytes_max_ = bytes; }
  // Returns how many bytes of payloads the peer may be sent now; 0: none. A payload of any size may be sent where this
  // is not 0.
  std::uint64_t RoomFor(PeerId peer) const;
  // Returns the same bytes, in flight until the last reference to them is dropped.
  Slice Track(PeerId peer, Slice payload);
  // Notes the payloads that have left since the last call.
  void TakeReleased();

  // Bytes in flight: to a peer; to all peers, each buffer once.
  std::uint64_t bytes_to(PeerId peer) const;
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Ticket;
  struct Released;
  struct Held {
    std::uint64_t bytes = 0;
    std::uint64_t tickets = 0;
  };
  static void Release(void* ticket);

  std::uint64_t bytes_max_ = kSpareBytes;
  std::uint64_t bytes_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> peers_;  // bytes in flight, by PeerId
  std::unordered_map<const Buffer*, Held> buffers_;         // in flight to any peer
  const std::shared_ptr<Released> released_;                // outlives this as long as a payload is in flight
};

}  // namespace capstan::server
