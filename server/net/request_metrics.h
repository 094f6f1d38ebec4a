// CountRequest, ShardTimes: count an actor's requests by their result, and measure their time.
//
// Kind:   owned by a loop's thread, which has a clock; cores have none.
#pragma once

#include <vector>

#include "common/wire/actor.h"
#include "monitoring/metrics.h"
#include "monitoring/trace.h"

namespace capstan::server {

// Counts `request` if a worker sent it; other messages do not count. `answers`: what the core sent in answer, where an
// Error gives the result.
void CountRequest(const Message& request, const Outbox& answers,
                  monitoring::ByOp<monitoring::ByCode<monitoring::Counter>>* requests);

class ShardTimes {
 public:
  // `lane` may be null.
  explicit ShardTimes(monitoring::ShardMetrics* metrics, monitoring::TraceLane* lane = nullptr)
      : metrics_(metrics), lane_(lane) {}

  // Times one message of the current batch, which was handled from `before` to `after`.
  void Handled(const Message& message, Instant before, Instant after);
  // Times the batch's pushes, after their acknowledgements were sent.
  void Flushed(Instant now);
  // Times the waits for verdicts. `prepared`: whether the shard waits for a verdict at `now`.
  void SeePrepared(bool prepared, Instant now);

 private:
  void CountPhase(const Message& message, Instant took, bool applied);
  void Trace(const Message& message, Instant before, Instant after, bool applied);

  monitoring::ShardMetrics* const metrics_;
  monitoring::TraceLane* const lane_;
  std::vector<Instant> pushes_;  // receive times of this batch's pushes
  std::uint64_t updates_seen_ = 0;
  Instant prepared_since_{};
  bool prepared_ = false;
};

}  // namespace capstan::server
