// CountRequest, ShardTimes: which requests an actor answered, how, and how long it took.
//
// Kind:   owned by a loop's thread, which has the clock that the cores lack.
#pragma once

#include <vector>

#include "common/wire/actor.h"
#include "monitoring/metrics.h"
#include "monitoring/trace.h"

namespace capstan::server {

// Adds one finished request of a worker; `answers`: what the core said to it. Other messages do not count.
void CountRequest(const Message& request, const Outbox& answers,
                  monitoring::ByOp<monitoring::ByCode<monitoring::Counter>>* requests);

class ShardTimes {
 public:
  // `lane` may be null.
  explicit ShardTimes(monitoring::ShardMetrics* metrics, monitoring::TraceLane* lane = nullptr)
      : metrics_(metrics), lane_(lane) {}

  // A message of the present batch has been handled and what it caused been sent.
  void Handled(const Message& message, Instant before, Instant after);
  // The batch's acknowledgements have been sent.
  void Flushed(Instant now);
  // Whether the shard waits for the verdict on a prepared step.
  void SeePrepared(bool prepared, Instant now);

 private:
  void Trace(const Message& message, Instant before, Instant after, bool applied);

  monitoring::ShardMetrics* const metrics_;
  monitoring::TraceLane* const lane_;
  std::vector<Instant> pushes_;  // of this batch: when each was received
  std::uint64_t updates_seen_ = 0;
  Instant prepared_since_{};
  bool prepared_ = false;
};

}  // namespace capstan::server
