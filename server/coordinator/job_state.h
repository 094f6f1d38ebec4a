// JobState: the phase of a job, and the table of all its changes.
//
// Kind:   a value; part of a Job.
// Fails:  CHECKs that the table has the change. A failed job keeps its first reason, unless the log fails later.
//
// A job gathers shards and workers (kCollecting). A generation begins from the newest snapshot or, with durable
// acknowledgements or another group of workers, from where the one before stopped (kResetting). Once every shard has
// answered, steps are decided (kRunning), until the last one is published (kFinished), the job is stopped on request
// (kStopped), or it fails (kFailed). A restarted coordinator may go from kCollecting to kRunning at once. If its log
// says that the job is done, it begins with kFinished, unless the job file now has more steps.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "common/base/status.h"
#include "server/coordinator/coordinator_options.h"

namespace capstan::server {

enum class JobEvent : std::uint8_t {
  kFoundConcluded,     // the log says that the job is done, and the job file has no more steps
  kFoundGeneration,    // the newest generation in the log was begun, but not logged as running
  kFoundRunning,       // every shard still serves the generation that is logged as running
  kGenerationBegan,    // a generation was logged
  kShardsBegan,        // every shard has begun the generation, which is logged
  kLastStepPublished,  // every shard has the last version
  kStopped,            // a stop was requested, and no longer has to wait for the last snapshot
};

class JobState {
 public:
  struct Change {
    CoordinatorState from;
    JobEvent event;
    CoordinatorState to;
  };
  using enum CoordinatorState;
  static constexpr std::array kChanges{
      Change{kCollecting, JobEvent::kFoundConcluded, kFinished},
      Change{kCollecting, JobEvent::kFoundGeneration, kResetting},
      Change{kCollecting, JobEvent::kFoundRunning, kRunning},
      Change{kCollecting, JobEvent::kGenerationBegan, kResetting},
      Change{kCollecting, JobEvent::kStopped, kStopped},
      Change{kResetting, JobEvent::kGenerationBegan, kResetting},  // the generation before could not begin
      Change{kResetting, JobEvent::kShardsBegan, kRunning},
      Change{kResetting, JobEvent::kStopped, kStopped},
      Change{kRunning, JobEvent::kGenerationBegan, kResetting},  // a shard was lost, or the workers' group broke
      Change{kRunning, JobEvent::kLastStepPublished, kFinished},
      Change{kRunning, JobEvent::kStopped, kStopped},
      Change{kFinished, JobEvent::kGenerationBegan, kResetting},  // a shard was lost before the job was concluded
  };

  void On(JobEvent event) {
    const auto change = std::find_if(kChanges.begin(), kChanges.end(), [&](const Change& candidate) {
      return candidate.from == state_ && candidate.event == event;
    });
    CAPSTAN_CHECK(change != kChanges.end());
    state_ = change->to;
  }
  // Fails the job, whatever its state is.
  void Fail(Status reason) {
    state_ = kFailed;
    failure_ = std::move(reason);
  }

  CoordinatorState now() const { return state_; }
  bool Is(CoordinatorState state) const { return state_ == state; }
  bool failed() const { return state_ == kFailed; }
  const Status& failure() const { return failure_; }

 private:
  CoordinatorState state_ = kCollecting;
  Status failure_;
};

}  // namespace capstan::server
