// Replica: a worker's own copy of the weights and the optimizer's state, and the update of it.
//
// Kind:   owned by the trainer's thread.
// Limits: two versions of 4 * (1 + states) bytes per parameter, of 2 more each where the model computes in 16 bits;
//         a third one where a version that was given away is still on its way when the step after the next begins.
// Parity: the arithmetic is the servers' (update/), and so is the verdict on a step: as of mode sync with one shard.
// Why:    every worker that starts with the same version and adds up the same gradient makes the same next version.
//         It is built beside the present one, because the step may yet be skipped, or begun anew by other workers.
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

  // All tensors one behind the other; of the present version.
  const float* weights() const { return present().arrays[0].As<const float>(); }
  const std::uint16_t* narrow_weights() const {
    return present().narrow ? present().narrow.As<const std::uint16_t>() : nullptr;
  }
  // Weights, then states, of the present version, to be filled from elsewhere; then Filled().
  std::span<float> array(std::size_t index) { return Floats(versions_[present_], index); }
  std::size_t array_count() const { return array_count_; }
  void Filled() { Narrow(&versions_[present_]); }

  // The next version. BeginStep; then each block once, in any order, as soon as `sum` (flat as the catalog) holds its
  // gradients: over all samples of the step the sum of mean gradient times number of samples. Then FinishStep says what
  // is to become of it, from this replica alone; it may run the update again (clipping, trust ratios).
  void BeginStep(const StepParameters& parameters, std::uint64_t samples, const float* sum);
  void UpdateBlock(BlockIndex block);
  struct Outcome {
    StepAction action = StepAction::kApply;  // not finite: kSkip
    double gradient_squares = 0.0;           // sum over parameters, of the averaged gradient before clipping
    std::uint64_t hash = 0;                  // of that, and of one block of the next version, another one every step
  };
  Outcome FinishStep(Step step);
  // Arrays of the version that the step makes: the next one, or, where it is skipped, the present one.
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
  const JobConfig config_;  // of mode sync
  const OptimizerRule rule_;
  const SegmentOrder order_;
  const std::size_t array_count_;
  const Encoding encoding_;
  BufferPool pool_;
  WritePath path_ = WritePath::kCached;
  std::vector<SegmentRange> segments_;  // as the catalog's
  std::array<Version, 2> versions_;
  int present_ = 0;

  // The step under way.
  StepParameters parameters_;
  std::vector<GroupRule> rules_;
  std::uint64_t samples_ = 0;
  const float* sum_ = nullptr;
  float clip_ = 1.0F;
  std::vector<float> trust_ratios_;
  std::unique_ptr<Prepared> prepared_;  // of the one shard that this is
};

}  // namespace capstan::train
