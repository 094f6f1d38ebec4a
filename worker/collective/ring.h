// RunRing: sums one array of all members, chunk by chunk around the ring, and hands the sum round.
//
// Kind:   owned by the thread of its group.
// Parity: part p is summed ((x[p+1] + x[p+2]) + ...) + x[p], ranks modulo their number, whatever the chunks are. On a
//         wire of 16 bits each partial sum is rounded when it travels, and the whole sum once: its owner too goes on
//         with what the others get. A member alone sends and rounds nothing.
// Why:    each rank sends 2 (P-1)/P of the array, whatever P is. Both halves are one row of chunks, so the wire is
//         busy from the first to the last one: while a chunk is added, the next ones travel in both directions.
#pragma once

#include "worker/collective/group.h"
#include "worker/collective/lanes.h"

namespace capstan::collective {

// Who takes part, by rank of the mesh, and which of them this one is.
struct Members {
  std::vector<int> ranks;
  int me = 0;

  int size() const { return static_cast<int>(ranks.size()); }
  // The rank of the mesh that is `distance` places on, in the ring.
  int Neighbour(int distance) const {
    const int place = (me + distance) % size();
    return ranks[static_cast<std::size_t>(place < 0 ? place + size() : place)];
  }
};

enum class RingHalves { kReduceScatter, kAllGather, kBoth };

// Messages have the tags from `tag` on, fewer than kItemsMax.
inline constexpr std::size_t kItemsMax = 1u << 20;
Status RunRing(Lanes* lanes, const Members& members, const GroupOptions& options, Tag tag, RingHalves halves,
               std::span<float> data);

// y[i] += x[i].
void AddTo(std::span<float> y, const float* x);
// y[i] += the number i of `encoded`.
void AddEncodedTo(std::span<float> y, Encoding encoding, const std::byte* encoded);

}  // namespace capstan::collective
