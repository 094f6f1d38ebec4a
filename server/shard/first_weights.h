// FirstWeights: which of a shard's blocks still lack initial weights from a worker, and whether version 0 is durable.
//
// Kind:   a value; part of Shard's core.
// Why:    initial weights that do not follow from the seed are on disk before anything depends on them, so every
//         restart has the same beginning. Until then pulls are parked and pushes are refused.
#pragma once

#include <set>
#include <vector>

#include "common/data/catalog.h"

namespace capstan::server {

class FirstWeights {
 public:
  enum class Begin { kVersion0, kLater };

  FirstWeights() = default;
  // `blocks`: this shard's. kLater: it starts from a snapshot, so it has all weights.
  FirstWeights(const Catalog& catalog, const std::vector<BlockIndex>& blocks, Begin begin)
      : kept_(begin == Begin::kLater || !catalog.is_given()) {
    for (BlockIndex block : blocks) {
      if (HoldsGiven(catalog, block)) given_.insert(block);
    }
    if (!kept_) missing_ = given_;
  }

  // Whether a worker sends the initial weights of any tensor in this block.
  static bool HoldsGiven(const Catalog& catalog, BlockIndex block) {
    const Block& place = catalog.blocks()[block];
    for (std::uint32_t i = 0; i < place.segment_count; ++i) {
      const TensorIndex tensor = catalog.segments()[place.first_segment + i].tensor;
      if (catalog.tensors()[tensor].init.kind == InitKind::kGiven) return true;
    }
    return false;
  }

  bool is_given(BlockIndex block) const { return given_.contains(block); }
  bool is_missing(BlockIndex block) const { return missing_.contains(block); }
  void Arrived(BlockIndex block) { missing_.erase(block); }
  bool complete() const { return missing_.empty(); }
  // Whether version 0 is on disk at every shard, or can be computed from the seed.
  bool kept() const { return kept_; }
  void Keep() { kept_ = complete(); }

 private:
  std::set<BlockIndex> given_, missing_;
  bool kept_ = true;
};

}  // namespace capstan::server
