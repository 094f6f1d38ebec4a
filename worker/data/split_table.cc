#include "worker/data/split_table.h"

#include "common/base/random.h"

namespace capstan::train {

namespace {

constexpr std::uint64_t kSplitKey = 0x73706c6974;

// Returns a number in [0, 2^32]. A sample is held out if its 32-bit hash is smaller, which is so for about the fraction
// `validation` of all samples.
std::uint64_t Threshold(double validation) { return static_cast<std::uint64_t>(validation * 0x1p32); }

}  // namespace

Result<SplitTable> SplitTable::Create(std::uint64_t samples, double validation, const std::string& what) {
  if (samples > kSplitSamplesMax) {
    return Invalid(what + ": " + std::to_string(samples) + " samples; at most " + std::to_string(kSplitSamplesMax));
  }
  SplitTable table;
  const std::uint64_t threshold = Threshold(validation);
  for (std::uint64_t i = 0; i < samples; ++i) {
    const bool held_out = Philox(kSplitKey, i, 0)[0] < threshold;
    (held_out ? table.validation_ : table.training_).push_back(static_cast<std::uint32_t>(i));
  }
  const std::string numbers = what + ": " + std::to_string(samples) +
                              " samples with validation = " + std::to_string(validation) + " leave none to ";
  if (table.training_.empty()) return Invalid(numbers + "train on; use more data or a smaller validation");
  if (validation > 0 && table.validation_.empty()) {
    return Invalid(numbers + "hold out; use more data, a larger validation, or validation = 0");
  }
  return table;
}

}  // namespace capstan::train
