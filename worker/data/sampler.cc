#include "worker/data/sampler.h"

#include <algorithm>
#include <cmath>

#include "common/base/random.h"
#include "common/base/status.h"

namespace capstan::train {

namespace {

constexpr std::uint64_t kOrderDomain = 0x6f72646572;  // separates these keys from others with the same seed
constexpr int kRounds = 6;

std::uint64_t RowsFor(std::uint64_t size) {
  auto rows = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(size)));
  return std::max<std::uint64_t>(rows, 1);
}

}  // namespace

EpochPermutation::EpochPermutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t size)
    : key_(PhiloxKey(seed, epoch, kOrderDomain)), size_(size), rows_(RowsFor(size)), columns_((size - 1) / rows_ + 1) {
  CAPSTAN_CHECK(size >= 1);
}

std::uint64_t EpochPermutation::operator()(std::uint64_t position) const {
  CAPSTAN_CHECK(position < size_);
  std::uint64_t value = position;
  do {  // the network permutes rows * columns numbers; a number beyond `size` is permuted again until it is below
    std::uint64_t column = value / rows_, row = value % rows_;
    for (int round = 0; round < kRounds; round += 2) {
      row = (row + PhiloxKey(key_, column, round)) % rows_;
      column = (column + PhiloxKey(key_, row, round + 1)) % columns_;
    }
    value = column * rows_ + row;
  } while (value >= size_);
  return value;
}

std::uint64_t StepsPerEpoch(const SamplerSpec& spec) { return (spec.dataset_size - 1) / spec.global_batch + 1; }

std::uint64_t BatchSize(const SamplerSpec& spec, Step step) {
  const std::uint64_t begin = step.value % StepsPerEpoch(spec) * spec.global_batch;
  return std::min<std::uint64_t>(spec.global_batch, spec.dataset_size - begin);
}

void SlotSamples(const SamplerSpec& spec, Step step, SlotIndex slot, std::vector<std::uint64_t>* samples) {
  const std::uint64_t steps = StepsPerEpoch(spec);
  const std::uint64_t begin = step.value % steps * spec.global_batch;
  const SampleRange share = SlotShare(BatchSize(spec, step), spec.slots, slot);
  const EpochPermutation order(spec.seed, step.value / steps, spec.dataset_size);
  samples->clear();
  for (std::uint64_t i = share.first; i < share.last; ++i) samples->push_back(order(begin + i));
}

SampleRange SlotShare(std::uint64_t count, std::uint32_t slots, SlotIndex slot) {
  CAPSTAN_CHECK(slot < slots);
  const std::uint64_t each = count / slots, larger = count % slots;  // the first `larger` slots have one more
  const std::uint64_t first = slot * each + std::min<std::uint64_t>(slot, larger);
  return {first, first + each + (slot < larger ? 1 : 0)};
}

}  // namespace capstan::train
