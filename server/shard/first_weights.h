// FirstWeights: which of a shard's blocks still need first weights from a worker, and whether version 0 exists.
//
// Kind:   a value; part of Shard's core.
// Why:    weights that do not follow from the seed are on disk before anything is computed from them, so every restart
//         begins with the same version 0. Until then no worker reads a weight, and no push counts.
#pragma once

#include <set>
#include <vector>

#include "common/data/catalog.h"

namespace capstan::server {

class FirstWeights {
 public:
  enum class Begin { kVersion0, kLater };

  FirstWeights() = default;
  // `blocks`: the blocks of this shard. A job that begins later than version 0, or from a snapshot, has all weights.
  FirstWeights(const Catalog& catalog, const std::vector<BlockIndex>& blocks, Begin begin)
      : kept_(begin == Begin::kLater || !catalog.is_given()) {
    for (BlockIndex block : blocks) {
      if (HoldsGiven(catalog, block)) given_.insert(block);
    }
    if (!kept_) missing_ = given_;
  }

  // Whether a tensor of this block gets its first weights from a worker.
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
  // Whether version 0 is on disk on every shard, or follows from the seed.
  bool kept() const { return kept_; }
  void Keep() { kept_ = complete(); }

 private:
  std::set<BlockIndex> given_, missing_;
  bool kept_ = true;
};

}  // namespace capstan::server
