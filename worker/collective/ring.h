// RunRing: adds up one array of all members, chunk by chunk around the ring, and distributes the sum.
//
// Kind:   a function that runs on its group's thread.
// Parity: part p is ((x[p+1] + x[p+2]) + ...) + x[p], ranks modulo the number of members, whatever the chunk size. With
//         a 16-bit wire each partial sum is rounded when it is sent, and the final sum once; its owner, rank p, uses
//         the rounded sum too. A group of one member sends and rounds nothing.
// Why:    each of P ranks sends 2 (P-1)/P of the array. Both halves are one sequence of chunks, so the wire stays busy
//         from the first to the last: while a chunk is added, the next ones are in flight in both directions.
#pragma once

#include "worker/collective/group.h"
#include "worker/collective/lanes.h"

namespace capstan::collective {

// The number of members of the group, and this member's rank.
struct Members {
  int size = 1;
  int me = 0;

  // Returns the rank that is `distance` places further along the ring; back, if `distance` is negative.
  int Neighbour(int distance) const {
    const int rank = (me + distance) % size;
    return rank < 0 ? rank + size : rank;
  }
};

enum class RingHalves { kAllGather, kBoth };

// Messages use fewer than kItemsMax tags, starting at `tag`.
inline constexpr std::size_t kItemsMax = 1u << 20;
Status RunRing(TransferLanes* lanes, const Members& members, const GroupOptions& options, Tag tag, RingHalves halves,
               std::span<float> data);

// Adds x[i] to each y[i].
void AddTo(std::span<float> y, const float* x);
// Adds number i of `encoded`, decoded, to each y[i].
void AddEncodedTo(std::span<float> y, Encoding encoding, const std::byte* encoded);

}  // namespace capstan::collective
