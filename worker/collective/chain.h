// RunBroadcast, RunReduce, RunGather, RunBarrier: what is needed now and then, simple before fast.
//
// Kind:   owned by the thread of its group.
// Parity: the order of Reduce's sum is ((x[root-1] + x[root-2]) + ...) + x[root], ranks modulo their number.
// Why:    chains of chunks: a rank passes on what has come while more comes; each link carries the array once.
#pragma once

#include "worker/collective/ring.h"

namespace capstan::collective {

Status RunBroadcast(Lanes* lanes, const Members& members, const GroupOptions& options, Tag tag, int root,
                    std::span<float> data);
Status RunReduce(Lanes* lanes, const Members& members, const GroupOptions& options, Tag tag, int root,
                 std::span<float> data);
Status RunGather(Lanes* lanes, const Members& members, Tag tag, int root, std::span<const float> mine,
                 std::span<float> all);
Status RunBarrier(Lanes* lanes, const Members& members, Tag tag);

}  // namespace capstan::collective
