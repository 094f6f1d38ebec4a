// RunBroadcast, RunReduce, RunGather, RunBarrier: the collectives besides AllReduce and AllGather.
//
// Kind:   functions that run on their group's thread.
// Parity: Reduce adds ((x[root-1] + x[root-2]) + ...) + x[root], ranks modulo the number of members.
// Why:    Broadcast and Reduce pass chunks along a chain of ranks. A rank forwards one chunk while it receives the
//         next, and each link carries the array once.
#pragma once

#include "worker/collective/ring.h"

namespace capstan::collective {

Status RunBroadcast(TransferLanes* lanes, const Members& members, const GroupOptions& options, Tag tag, int root,
                    std::span<float> data);
Status RunReduce(TransferLanes* lanes, const Members& members, const GroupOptions& options, Tag tag, int root,
                 std::span<float> data);
Status RunGather(TransferLanes* lanes, const Members& members, Tag tag, int root, std::span<const float> mine,
                 std::span<float> all);
Status RunBarrier(TransferLanes* lanes, const Members& members, Tag tag);

}  // namespace capstan::collective
