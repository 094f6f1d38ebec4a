#include "common/wire/staged_runs.h"

#include <algorithm>
#include <tuple>

namespace capstan {

std::vector<StagedRun> RunsOf(const std::vector<StagedNode>& nodes) {
  std::vector<StagedRun> runs;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& [block, node] = nodes[i];
    if (!runs.empty() && runs.back().node == node) {
      StagedRun& run = runs.back();
      const std::uint32_t stride = block - nodes[i - 1].block;
      if (run.more == 0 || run.stride == stride) {
        run.stride = stride;
        ++run.more;
        continue;
      }
    }
    runs.push_back({block, node});
  }
  return runs;
}

void ArrangeToFit(std::vector<StagedNode>* nodes) {
  std::sort(nodes->begin(), nodes->end(), [](const StagedNode& a, const StagedNode& b) {
    return std::tuple(a.node.begin, a.node.end, a.block) < std::tuple(b.node.begin, b.node.end, b.block);
  });
  if (nodes->size() > kStagedNodesMax) nodes->resize(kStagedNodesMax);
  const std::vector<StagedRun> runs = RunsOf(*nodes);
  if (runs.size() <= kStagedRunsMax) return;
  std::size_t fitting = 0;
  for (std::size_t i = 0; i < kStagedRunsMax; ++i) fitting += std::size_t{runs[i].more} + 1;
  nodes->resize(fitting);
}

}  // namespace capstan
