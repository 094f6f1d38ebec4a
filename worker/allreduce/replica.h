// Replica: a worker's copy of the weights and the optimizer's state, and their update.
//
// Kind:   owned by the trainer's thread.
// Limits: two versions, each 4 * (1 + states) bytes per parameter, plus 2 bytes if the model computes in 16 bits. New
//         arrays are allocated if those that the next version needs are still being uploaded.
// Parity: the update and the decision on a step are the servers' code (update/), as in mode sync with one shard.
// Why:    every worker that has the same version and the same summed gradient makes the same next version. The next
//         version has its own arrays, because the step may still be skipped or done again by another group.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "common/base/buffer.h"
#include "common/config/job_config.h"
#include "common/data/catalog.h"
#include "common/wire/messages/step_parameters.h"
#include "update/block_update.h"
#include "update/verdict.h"

namespace capstan {
struct Prepared;
}  // namespace capstan

namespace capstan::train {

class Replica {
 public:
  // `catalog` outlives it.
  Replica(const Catalog& catalog, const JobConfig& config);
  ~Replica();

  // The present version: all tensors in catalog order, without gaps.
  const float* weights() const { return present().arrays[0].As<const float>(); }
  const std::uint16_t* narrow_weights() const {
    return present().narrow ? present().narrow.As<const std::uint16_t>() : nullptr;
  }
  // Arrays of the present version: weights, then states. A caller that fills them calls Filled() afterwards.
  std::span<float> array(std::size_t index) { return Floats(versions_[present_], index); }
  std::size_t array_count() const { return array_count_; }
  void Filled() { Narrow(&versions_[present_]); }

  // Building the next version: BeginStep, then UpdateBlock once for each block, in any order, then FinishStep. `sum` is
  // flat, in catalog order. It holds the sum, over all slots of the step, of the slot's mean gradient (times the loss
  // scale) times the slot's samples. A block may be updated as soon as its part of `sum` is final. FinishStep decides
  // the step from this replica's data only, and may run the update again (clipping, trust ratios).
  void BeginStep(const StepParameters& parameters, std::uint64_t samples, const float* sum);
  void UpdateBlock(BlockIndex block);
  struct Outcome {
    StepAction action = StepAction::kApply;  // kSkip: a gradient is not finite, or the step has no samples
    double gradient_squares = 0.0;           // squares of the averaged gradient before clipping, summed over parameters
    // Hash of gradient_squares and of one block of weights that the step makes. Each step takes the next block.
    std::uint64_t hash = 0;
  };
  Outcome FinishStep(Step step);
  // Arrays of the version that the step makes: the next version's, or the present one's if the step is skipped.
  std::vector<Slice> Made(StepAction action) const;
  // The next version becomes the present one.
  void Publish() { present_ = 1 - present_; }

 private:
  static constexpr std::size_t kArraysMax = 1 + kStatesMax;
  struct Version {
    std::array<BufferRef, kArraysMax> arrays;
    BufferRef narrow;  // null: fp32
  };

  const Version& present() const { return versions_[present_]; }
  std::span<float> Floats(const Version& version, std::size_t index) const {
    return {version.arrays[index].As<float>(), catalog_.element_count()};
  }
  BlockIn In(const Block& block) const;
  BlockOut Out(const Block& block) const;
  std::span<const SegmentRange> Segments(const Block& block) const {
    return std::span(segments_).subspan(block.first_segment, block.segment_count);
  }
  TrustSquares Trust(const Block& block);
  UpdateScalars Scalars() const;
  void UpdateAgain();
  void Narrow(Version* version);
  void NarrowBlock(const Block& block, const Version& version);

  const Catalog& catalog_;
  const JobConfig config_;  // the job's, changed to mode sync
  const OptimizerRule rule_;
  const SegmentOrder order_;
  const std::size_t array_count_;
  const Encoding encoding_;
  BufferPool pool_;
  WritePath path_ = WritePath::kCached;
  std::vector<SegmentRange> segments_;  // the catalog's segments
  std::array<Version, 2> versions_;
  int present_ = 0;

  // The current step.
  StepParameters parameters_;
  std::vector<GroupRule> rules_;
  std::uint64_t samples_ = 0;
  const float* sum_ = nullptr;
  float clip_ = 1.0F;
  std::vector<float> trust_ratios_;
  std::unique_ptr<Prepared> prepared_;  // the report to Decide, as that of a single shard
};

}  // namespace capstan::train
