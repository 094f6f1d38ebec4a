#include "worker/machine/host_adder.h"

#include "common/data/encoding.h"

namespace capstan::train {

namespace {

class HostAdder final : public BucketAdder {
 public:
  HostAdder(const AdderOptions& options, collective::Group* group)
      : catalog_(*options.catalog), encoding_(options.encoding), group_(*group) {}

  bool is_impatient() const override { return false; }
  std::size_t ahead_max() const override { return 0; }
  Status Begin(const MachineStep& step, const Bucket& bucket) override;
  Status Finish(const std::function<void(BlockIndex)>& ready) override;

 private:
  std::span<const float> Mine(std::size_t number, std::size_t floats);
  void AddBlock(const Block& block);

  const Catalog& catalog_;
  const Encoding encoding_;
  collective::Group& group_;
  std::vector<std::vector<float>> gathered_;  // by part number; each holds that part of every rank, in rank order
  std::vector<float> packed_;                 // send buffer for 16-bit parts (their blocks have gaps) and empty ones
  HostAddition addition_;

  // The bucket that was begun and is not finished.
  const MachineStep* step_ = nullptr;
  const Bucket* bucket_ = nullptr;
  std::vector<std::size_t> floats_;  // floats in each rank's part, by part number
};

Status HostAdder::Begin(const MachineStep& step, const Bucket& bucket) {
  step_ = &step;
  bucket_ = &bucket;
  floats_.clear();
  gathered_.resize(std::max(gathered_.size(), step.plan.parts_each));
  for (std::size_t number = 0; number < step.plan.parts_each; ++number) {
    const std::size_t floats = PartFloats(step.plan, number, bucket, encoding_);
    floats_.push_back(floats);
    std::vector<float>& all = gathered_[number];
    if (group_.rank() == 0) all.resize(floats * static_cast<std::size_t>(group_.size()));
    const auto deadline = std::chrono::steady_clock::now() + kApartMax;
    CAPSTAN_RETURN_IF_ERROR(group_.Gather(Mine(number, floats), 0, all, deadline));
  }
  return {};
}

// Returns the floats that this worker sends as its part `number`. If it has no such part, it sends undefined floats,
// which the receiver ignores.
std::span<const float> HostAdder::Mine(std::size_t number, std::size_t floats) {
  const std::byte* const flat = number < step_->parts.size() ? step_->parts[number] : nullptr;
  const bool is_wide = flat != nullptr && PartEncoding(step_->nodes[number], *bucket_, encoding_) == Encoding::kFp32;
  if (is_wide) return {reinterpret_cast<const float*>(flat) + bucket_->flat_offset, floats};
  packed_.resize(std::max(packed_.size(), floats));
  if (flat != nullptr) {
    auto* const packed = reinterpret_cast<std::byte*>(packed_.data());
    PackPart(catalog_, *bucket_, step_->nodes[number], encoding_, flat, packed);
  }
  return {packed_.data(), floats};
}

Status HostAdder::Finish(const std::function<void(BlockIndex)>& ready) {
  if (step_->sums.empty()) return {};
  for (BlockIndex index = bucket_->last + 1; index-- > bucket_->first;) {
    AddBlock(catalog_.blocks()[index]);
    ready(index);
  }
  return {};
}

void HostAdder::AddBlock(const Block& block) {
  std::vector<StagedInput> parts;
  for (const MachinePlan::Part& part : step_->plan.parts) {
    const Encoding encoding = PartEncoding(part.node, *bucket_, encoding_);
    const float* const bucket =
        gathered_[part.number].data() + static_cast<std::size_t>(part.rank) * floats_[part.number];
    const std::size_t offset = (block.flat_offset - bucket_->flat_offset) * BytesPerNumber(encoding);
    parts.push_back({part.node, part.samples, reinterpret_cast<const std::byte*>(bucket) + offset, encoding});
  }
  train::AddBlock(step_->plan, parts, block, step_->sums, &addition_);
}

}  // namespace

std::unique_ptr<BucketAdder> CreateHostAdder(const AdderOptions& options, collective::Group* group) {
  return std::make_unique<HostAdder>(options, group);
}

}  // namespace capstan::train
