// SplitTable: which samples are for training and which are held out.
//
// Kind:   immutable.
// Limits: kSplitSamplesMax samples.
// Fails:  kInvalid when a split would be empty.
// Why:    whether a sample is held out depends only on a hash of its number and on the fraction `validation`. It does
//         not depend on the job's seed, so jobs can be compared, nor on the worker, so all workers agree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/data/dataset.h"

namespace capstan::train {

inline constexpr std::uint64_t kSplitSamplesMax = 0xFFFFFFFF;

class SplitTable {
 public:
  // Makes a split in which about `validation` of the samples are held out. `what` names the data in messages.
  static Result<SplitTable> Create(std::uint64_t samples, double validation, const std::string& what);

  std::uint64_t count(Split split) const { return members(split).size(); }
  // Returns the number that sample number `sample` of this split has in the whole data.
  std::uint64_t Locate(Split split, std::uint64_t sample) const { return members(split)[sample]; }

 private:
  const std::vector<std::uint32_t>& members(Split split) const {
    return split == Split::kTraining ? training_ : validation_;
  }
  std::vector<std::uint32_t> training_, validation_;
};

}  // namespace capstan::train
