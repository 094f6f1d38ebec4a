// StagedRuns: nodes of many blocks as runs of evenly spaced blocks that have the same node.
//
// Kind:   values and pure functions.
// Limits: kStagedRunsMax runs of kStagedNodesMax nodes in a message.
// Why:    a shard's blocks are mostly every S-th of the catalog, and have the same nodes. What a shard of 100,000 blocks
//         holds of a step is then a few runs, and fits a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/wire/messages/staged.h"

namespace capstan {

inline constexpr std::size_t kStagedRunsMax = 65536;
inline constexpr std::size_t kStagedNodesMax = std::size_t{1} << 20;

// `node` of the blocks `block`, `block` + `stride`, ... modulo 2^32; `count` of them.
struct StagedRun {
  BlockIndex block = 0;
  std::uint32_t stride = 0, count = 1;
  Node node;
};

std::vector<StagedRun> RunsOf(const std::vector<StagedNode>& nodes);
// Puts the nodes in the order that makes the fewest runs, and leaves out what would not fit a message.
void ArrangeToFit(std::vector<StagedNode>* nodes);

}  // namespace capstan
