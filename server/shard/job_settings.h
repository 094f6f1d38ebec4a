// JobSettings: what a shard takes from the job file.
//
// Kind:   values.
#pragma once

#include <cstdint>

#include "common/base/aggregation.h"
#include "common/base/types.h"
#include "common/config/job/forward.h"
#include "common/config/job/mode.h"
#include "update/optimizer.h"

namespace capstan::server {

struct JobSettings {
  Mode mode = Mode::kSync;
  Aggregation aggregation = Aggregation::kMean;
  std::uint64_t staleness = 0;  // for mode bounded
  Acknowledge acknowledge = Acknowledge::kReceived;
  std::uint64_t seed = 1;
  OptimizerRule optimizer;
  Encoding encoding = Encoding::kFp32;  // for pulled weights and pushed leaves
  bool snapshots = false;               // whether the job writes some at intervals
  std::uint64_t config_hash = 0;        // compared with the coordinator's
};

JobSettings JobSettingsOf(const JobConfig& config);

}  // namespace capstan::server
