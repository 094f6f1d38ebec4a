// LagOfWorkers: how many steps each worker is behind the job.
//
// Kind:   a pure function of a Job, for people; a value.
// Why:    a Heartbeat is up to a second old, so it is compared with the job's step at its arrival. With global
//         steps, all workers compute the job's step or the one before. In async and bounded the job's step is that of
//         the slowest slot, so a worker is compared with the worker that is furthest.
#pragma once

#include <cstdint>

#include "common/base/types.h"

namespace capstan::server {

struct Job;
struct Worker;

// Returns by how many steps `a` is ahead of `b`, at most kAheadMax in either direction, since `a` may come from a peer.
inline constexpr std::uint64_t kAheadMax = std::uint64_t{1} << 40;
std::int64_t StepsAhead(Step a, Step b);

class LagOfWorkers {
 public:
  LagOfWorkers(const Job& job, Instant now);
  std::uint64_t Of(const Worker& worker) const;

 private:
  std::int64_t AheadOf(const Worker& worker) const;

  const Job& job_;
  const Instant now_;
  std::int64_t furthest_ = 0;  // by how many steps a computing worker is ahead of the job's step
};

}  // namespace capstan::server
