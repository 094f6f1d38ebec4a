// FindBound: what bounds the speed of a job now, by its members' reports.
//
// Kind:   a pure function of a Job, for people.
// Why:    every worker reports where its time went, and every shard how busy it is, both once a second. Missing
//         members come first, then a worker that the others wait for, then what takes most of the workers' time.
#pragma once

#include <string>

#include "common/base/types.h"

namespace capstan::server {

struct Job;
struct Worker;

struct Bound {
  // "compute", "network", "server", "input", "straggler", "waiting", "snapshot" or "unknown"
  const char* what = "unknown";
  std::string who;       // the worker or server that it is about; empty: it is about none
  std::string sentence;  // for people
};

Bound FindBound(const Job& job, Instant now);

// The shares of a worker's recent time, each from 0 to 1. They add up to 1.
struct TimeShares {
  double compute = 0, input = 0, exchange = 0, commit = 0;
  double waits() const { return exchange + commit; }
};
// Returns false if the worker has not reported enough yet.
bool FindShares(const Worker& worker, TimeShares* shares);

}  // namespace capstan::server
