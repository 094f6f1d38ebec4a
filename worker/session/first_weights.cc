#include "worker/session/first_weights.h"

namespace capstan::client {

void FirstWeights::Begin(Generation generation, const Catalog& catalog, const std::vector<ShardIndex>& placement) {
  generation_ = generation;
  owed_.Clear();
  for (const Segment& segment : catalog.segments()) {
    if (catalog.tensors()[segment.tensor].init.kind != InitKind::kGiven) continue;
    owed_.Add(placement[segment.block], segment.block);
  }
}

Slice FirstWeights::PayloadOf(const Block& block) const {
  return {weights_, weights_->data() + block.flat_offset * sizeof(float), block.count * sizeof(float)};
}

}  // namespace capstan::client
