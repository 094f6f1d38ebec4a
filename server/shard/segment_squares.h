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
  // `with_trust`: whether there are also sums for trust ratios.
  SegmentSquares(const BlockStore& store, bool with_trust) {
    start_.push_back(0);
    for (std::size_t local = 0; local < store.size(); ++local) {
      start_.push_back(start_.back() + store.segment_count(local));
    }
    gradient_.assign(start_.back(), 0.0);
    weights_.assign(with_trust ? start_.back() : 0, 0.0);
    direction_.assign(with_trust ? start_.back() : 0, 0.0);
  }

  // The gradient's sums of one block, in the order of its segments.
  std::span<double> GradientOf(std::size_t local) { return Part(&gradient_, local); }
  // The sums for trust ratios of one block; empty if the optimizer has no trust ratio.
  TrustSquares TrustOf(std::size_t local) {
    if (weights_.empty()) return {};
    return {Part(&weights_, local), Part(&direction_, local)};
  }
  // Sets the sums of a block that has no samples to 0.
  void Clear(std::size_t local) {
    const TrustSquares trust = TrustOf(local);
    for (const std::span<double> sums : {GradientOf(local), trust.weights, trust.direction}) {
      std::ranges::fill(sums, 0.0);
    }
  }

  const std::vector<double>& gradient() const { return gradient_; }
  const std::vector<double>& weights() const { return weights_; }
  const std::vector<double>& direction() const { return direction_; }

 private:
  std::span<double> Part(std::vector<double>* all, std::size_t local) const {
    return std::span(*all).subspan(start_[local], start_[local + 1] - start_[local]);
  }

  std::vector<std::size_t> start_;  // by block: its first segment; then the number of all segments
  std::vector<double> gradient_, weights_, direction_;
};

}  // namespace capstan::server
