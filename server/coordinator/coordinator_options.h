// CoordinatorOptions: the settings that a Coordinator is made with; CoordinatorState: how far it has come.
//
// Kind:   values.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/types.h"
#include "common/config/job_config.h"
#include "common/data/catalog.h"

namespace capstan::server {

struct CoordinatorOptions {
  JobConfig config;
  std::string job_file;  // canonical text, handed to workers
  JobId job;             // of a new job; an old one's is in the log
  std::uint32_t block_elements = kBlockElements;
  // A worker that computes one step for so long, and for four times what nearly all steps take, is slow: its slots are
  // given to another one as well.
  Instant slow_after = std::chrono::seconds(30);
  // The log may be an old copy: the job goes back to its newest snapshot also when shards know of more.
  bool accept_rollback = false;
  // Where acknowledgements are durable: what was acknowledged may be given up where it cannot be had any more.
  bool accept_loss = false;
};

enum class CoordinatorState { kCollecting, kResetting, kRunning, kFinished, kStopped, kFailed };

}  // namespace capstan::server
