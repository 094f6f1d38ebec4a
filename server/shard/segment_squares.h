// SegmentSquares: the sums of squares that a step reports for each segment of a shard's blocks.
//
// Kind:   a value of a SyncStep.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "server/shard/block_store.h"
#include "update/block_update.h"

namespace capstan::server {

class SegmentSquares {
 public:
  SegmentSquares() = default;
  // `with_trust`: whether the optimizer needs sums for trust ratios too (lars, lamb).
  SegmentSquares(const BlockStore& store, bool with_trust) {
    start_.push_back(0);
    for (std::size_t index = 0; index < store.size(); ++index) {
      start_.push_back(start_.back() + store.segment_count(index));
    }
    gradient_.assign(start_.back(), 0.0);
    weights_.assign(with_trust ? start_.back() : 0, 0.0);
    direction_.assign(with_trust ? start_.back() : 0, 0.0);
  }

  // The sums of the gradient's squares for one block, one per segment. `index`: the block's, in the store.
  std::span<double> GradientOf(std::size_t index) { return Part(&gradient_, index); }
  // One block's sums for trust ratios; empty if the optimizer has none.
  TrustSquares TrustOf(std::size_t index) {
    if (weights_.empty()) return {};
    return {Part(&weights_, index), Part(&direction_, index)};
  }
  // Sets the sums of a block that has no samples to 0.
  void Clear(std::size_t index) {
    const TrustSquares trust = TrustOf(index);
    for (const std::span<double> sums : {GradientOf(index), trust.weights, trust.direction}) {
      std::ranges::fill(sums, 0.0);
    }
  }

  const std::vector<double>& gradient() const { return gradient_; }
  const std::vector<double>& weights() const { return weights_; }
  const std::vector<double>& direction() const { return direction_; }

 private:
  std::span<double> Part(std::vector<double>* all, std::size_t index) const {
    return std::span(*all).subspan(start_[index], start_[index + 1] - start_[index]);
  }

  std::vector<std::size_t> start_;  // by block: its first segment; then the number of all segments
  std::vector<double> gradient_, weights_, direction_;
};

}  // namespace capstan::server
