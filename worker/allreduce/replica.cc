#include "worker/allreduce/replica.h"

#include <algorithm>

#include "common/base/hash.h"
#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/data/encoding.h"
#include "common/wire/messages/prepared.h"
#include "update/update_scalars.h"

namespace capstan::train {

namespace {

// The update multiplies the value of a node of one leaf by its samples. The sum is multiplied already, so it enters the
// update as the root of a tree of two leaves, whatever the number of slots.
constexpr ReductionTree kTree(2);

JobConfig AsSync(EditableJobConfig config) {
  config.job.mode = Mode::kSync;
  return config;
}

}  // namespace

Replica::Replica(const Catalog& catalog, const JobConfig& config)
    : catalog_(catalog),
      config_(AsSync(config)),
      rule_(MakeOptimizerRule(config.optimizer)),
      order_(catalog, 1),
      array_count_(1 + static_cast<std::size_t>(StateCount(MakeOptimizerRule(config.optimizer)))),
      encoding_(EncodingOf(config)),
      pool_(catalog.element_count() * sizeof(float)),
      prepared_(std::make_unique<Prepared>()) {
  const std::uint64_t count = catalog.element_count();
  BufferPool narrow_pool(count * BytesPerNumber(encoding_));
  for (Version& version : versions_) {
    for (std::size_t i = 0; i < array_count_; ++i) version.arrays[i] = pool_.Take();
    if (encoding_ != Encoding::kFp32) version.narrow = narrow_pool.Take();
  }
  for (const Segment& segment : catalog.segments()) {
    const TensorSpec& tensor = catalog.tensors()[segment.tensor];
    segments_.push_back({segment.block_offset, segment.count, tensor.decay, 0, tensor.kind, segment.tensor});
  }
  path_ = WritePathFor(count * sizeof(float) * (2 * array_count_ + 1));
  prepared_->report.segment_squares.assign(segments_.size(), 0.0);
  if (!TakesTrustRatio(rule_.kind)) return;
  prepared_->report.weight_squares.assign(segments_.size(), 0.0);
  prepared_->report.direction_squares.assign(segments_.size(), 0.0);
}

Replica::~Replica() = default;

BlockIn Replica::In(const Block& block) const {
  const Version& version = present();
  BlockIn in{Floats(version, 0).data() + block.flat_offset, {}};
  for (std::size_t i = 1; i < array_count_; ++i) in.state[i - 1] = Floats(version, i).data() + block.flat_offset;
  return in;
}

BlockOut Replica::Out(const Block& block) const {
  const Version& version = versions_[1 - present_];
  BlockOut out{Floats(version, 0).data() + block.flat_offset, {}, nullptr, path_};
  for (std::size_t i = 1; i < array_count_; ++i) out.state[i - 1] = Floats(version, i).data() + block.flat_offset;
  return out;
}

TrustSquares Replica::Trust(const Block& block) {
  PrepareReport& report = prepared_->report;
  if (report.weight_squares.empty()) return {};
  return {std::span(report.weight_squares).subspan(block.first_segment, block.segment_count),
          std::span(report.direction_squares).subspan(block.first_segment, block.segment_count)};
}

UpdateScalars Replica::Scalars() const {
  UpdateScalars scalars = MakeUpdateScalars(kTree.aggregation(), parameters_.updates, samples_, parameters_.loss_scale);
  scalars.clip = clip_;
  scalars.trust_ratios = trust_ratios_;
  return scalars;
}

void Replica::BeginStep(const StepParameters& parameters, std::uint64_t samples, const float* sum) {
  parameters_ = parameters;
  rules_ = MakeGroupRules(rule_, parameters.learning_rate, {});
  samples_ = samples;
  sum_ = sum;
  clip_ = 1.0F;
  trust_ratios_.clear();
  for (BufferRef& array : versions_[1 - present_].arrays) {
    if (array && array->reference_count() > 1) array = pool_.Take();  // still being uploaded to a shard
  }
}

void Replica::UpdateBlock(BlockIndex index) {
  if (samples_ == 0) return;
  const Block& block = catalog_.blocks()[index];
  const StagedInput input{kTree.root(), samples_, reinterpret_cast<const std::byte*>(sum_ + block.flat_offset)};
  const std::span<double> squares =
      std::span(prepared_->report.segment_squares).subspan(block.first_segment, block.segment_count);
  ReduceAndUpdate(rules_, Scalars(), std::span(&input, 1), kTree, Segments(block), In(block), Out(block), squares,
                  Trust(block));
  NarrowBlock(block, versions_[1 - present_]);
}

void Replica::UpdateAgain() {
  for (const Block& block : catalog_.blocks()) {
    UpdateFromSum(rules_, Scalars(), sum_ + block.flat_offset, Segments(block), In(block), Out(block), Trust(block));
    NarrowBlock(block, versions_[1 - present_]);
  }
}

Replica::Outcome Replica::FinishStep(Step step) {
  PrepareReport& report = prepared_->report;
  if (samples_ == 0) {
    for (std::vector<double>* squares : {&report.segment_squares, &report.weight_squares, &report.direction_squares})
      std::ranges::fill(*squares, 0.0);
  }
  SlotReport all;
  all.samples = samples_;
  report.slots = {all};
  prepared_->step = step;
  Outcome outcome;
  for (double squares : report.segment_squares) outcome.gradient_squares += squares;
  for (std::uint32_t attempt = 0;; ++attempt) {
    const Verdict verdict = Decide(config_, catalog_, order_, {prepared_.get()}, attempt, parameters_);
    // The coordinator decides whether a gradient that is not finite ends the job.
    outcome.action = verdict.kind == Verdict::Kind::kStop ? StepAction::kSkip : verdict.action;
    if (verdict.kind != Verdict::Kind::kRedo) break;
    clip_ = verdict.clip;
    trust_ratios_ = verdict.trust_ratios;
    UpdateAgain();
  }
  const Version& made = outcome.action == StepAction::kApply ? versions_[1 - present_] : present();
  const Block& block = catalog_.blocks()[step.value % catalog_.blocks().size()];
  Hasher hasher;
  hasher.Add(std::as_bytes(std::span(&outcome.gradient_squares, 1)));
  hasher.Add(std::as_bytes(Floats(made, 0).subspan(block.flat_offset, block.count)));
  outcome.hash = hasher.Digest();
  return outcome;
}

std::vector<Slice> Replica::Made(StepAction action) const {
  const Version& version = action == StepAction::kApply ? versions_[1 - present_] : present();
  std::vector<Slice> arrays;
  for (std::size_t i = 0; i < array_count_; ++i) {
    arrays.push_back({version.arrays[i], version.arrays[i]->data(), catalog_.element_count() * sizeof(float)});
  }
  return arrays;
}

void Replica::Narrow(Version* version) {
  for (const Block& block : catalog_.blocks()) NarrowBlock(block, *version);
}

// Writes a block of the 16-bit weights. Running statistics have none: the model reads them as fp32.
void Replica::NarrowBlock(const Block& block, const Version& version) {
  if (!version.narrow || block.EncodingIn(encoding_) == Encoding::kFp32) return;
  Encode(encoding_, Floats(version, 0).subspan(block.flat_offset, block.count),
         version.narrow->data() + block.flat_offset * BytesPerNumber(encoding_));
}

}  // namespace capstan::train
