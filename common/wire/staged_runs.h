// StagedRuns: a compact form of staged nodes: runs of evenly spaced blocks that have the same node.
//
// Kind:   values and pure functions.
// Limits: a list in a message has at most kStagedRunsMax runs and kStagedNodesMax nodes.
// Why:    with S shards, a shard mostly has every S-th block of the catalog, and these blocks mostly have the same
//         nodes staged. So the state of 100,000 blocks is a few runs and fits into a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/wire/messages/staged.h"

namespace capstan {

inline constexpr std::size_t kStagedRunsMax = 40'960;  // of 24 bytes each, so that a list fits kFrameToShardBytesMax
inline constexpr std::size_t kStagedNodesMax = std::size_t{1} << 20;

// Says that `more` + 1 blocks have `node` staged: `block`, `block` + `stride`, ... modulo 2^32.
struct StagedRun {
  BlockIndex block = 0;
  Node node;
  std::uint32_t stride = 0, more = 0;
};

std::vector<StagedRun> RunsOf(const std::vector<StagedNode>& nodes);
// Sorts the nodes so that they make few runs, and drops those that would not fit into a message.
void ArrangeToFit(std::vector<StagedNode>* nodes);

}  // namespace capstan
