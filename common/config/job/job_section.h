// JobSection: section [job] of the job file.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/aggregation.h"
#include "common/config/job/mode.h"

namespace capstan {

enum class NonFinitePolicy : std::uint8_t { kStop, kSkip };

// The most steps of a job. A job of programs that has so many ends where their loops end: capstan launch then makes the
// steps that they have done the job's number of steps.
inline constexpr std::uint64_t kOpenEndedSteps = std::uint64_t{1} << 40;

struct JobSection {
  std::string name = "job";
  Mode mode = Mode::kSync;
  std::uint64_t steps = 0;  // required; global batches in sync, sequence numbers of each slot in async
  std::uint64_t seed = 1;
  std::uint32_t global_batch = 0;                    // required; samples of all slots together
  std::uint32_t slots = 0;                           // 0 in the file: DefaultSlots; after reading never 0
  std::uint64_t staleness = 1;                       // bounded: most steps that a slot may be ahead of the slowest slot
  Acknowledge acknowledge = Acknowledge::kReceived;  // async, bounded
  std::uint64_t eval_every = 0;                      // steps between validations; 0: never
  Aggregation aggregation = Aggregation::kMean;      // sync; in allreduce only kMean
  NonFinitePolicy on_nonfinite = NonFinitePolicy::kStop;
  bool operator==(const JobSection&) const = default;
};

}  // namespace capstan
