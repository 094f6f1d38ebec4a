// StepRecords: the figures of committed steps, and how long the newest ones took.
//
// Kind:   a value; part of a Job.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "monitoring/metrics.h"
#include "update/verdict.h"

namespace capstan::server {

class StepRecords {
 public:
  // Without global steps, a record has no gradient norm and no loss scale.
  StepRecords(std::shared_ptr<monitoring::CoordinatorMetrics> metrics, bool has_global_steps, Instant now)
      : metrics_(std::move(metrics)), has_global_steps_(has_global_steps), last_commit_(now) {}

  // Measures the next step's duration from `now` on.
  void Begin(Instant now) { last_commit_ = now; }
  void Add(StepRecord record, Instant now);
  // Returns the records that were added since the last call.
  std::vector<StepRecord> Take() { return std::exchange(records_, {}); }
  // Returns after how long a worker is slow: four times the 95th percentile of recent steps' durations, at least
  // `least`.
  Instant SlowAfter(Instant least) const;
  // Returns the mean duration of recent steps; nothing if there are none.
  std::optional<double> MeanSeconds() const;
  // Returns how many samples a second recent steps had; nothing if they took no time.
  std::optional<double> SamplesPerSecond() const;

 private:
  static constexpr std::size_t kStepsMeasured = 64;

  std::shared_ptr<monitoring::CoordinatorMetrics> metrics_;
  bool has_global_steps_;
  std::vector<StepRecord> records_;
  Instant last_commit_;
  struct Recent {
    double seconds = 0.0;
    std::uint64_t samples = 0;
  };
  std::vector<Recent> recent_;  // the newest steps, a ring
  std::size_t next_ = 0;
};

}  // namespace capstan::server
