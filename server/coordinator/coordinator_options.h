// CoordinatorOptions: the settings of a Coordinator. CoordinatorState: the phase of the job.
//
// Kind:   values.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "common/base/types.h"
#include "common/config/job_config.h"
#include "common/data/catalog.h"

namespace capstan::server {

struct CoordinatorOptions {
  JobConfig config;
  std::string job_file;  // canonical text, sent to workers
  JobId job;             // id for a new job; a resumed job's id is in the log
  std::uint32_t block_elements = kBlockElements;
  // A worker is slow when it has computed one step for this long, and for four times the 95th percentile of the
  // durations of recent steps. In mode sync without ranks, an idle worker then computes the same slots.
  Instant slow_after = std::chrono::seconds(30);
  // The log may be an old copy: the job goes back to the log's newest snapshot even if shards have newer ones.
  bool accept_rollback = false;
  // With durable acknowledgements: acknowledged pushes that cannot be recovered may be given up.
  bool accept_loss = false;
  // Draws a number that no other process can guess. CoordinatorLoop takes those of the operating system.
  std::function<std::uint64_t()> draw_secret = nullptr;
};

enum class CoordinatorState { kCollecting, kResetting, kRunning, kFinished, kStopped, kFailed };

}  // namespace capstan::server
