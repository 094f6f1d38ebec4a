// Judge: runs one seed's job and reports errors in its outcome.
//
// Kind:   owned by one thread; it caches the undisturbed run of every kind of job.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/config/job/mode.h"
#include "tests/sim/mutants.h"
#include "tests/sim/options.h"

namespace capstan::sim {

// Steps of an old job without --steps: enough for every low limit of the simulator to be reached many times.
inline constexpr std::uint64_t kOldSteps = 400;

// A run by its name: `sim --seed N [--async | --bounded | --allreduce] [--durable] [--local] [--edition E]`, or `sim
// --seed N --old | --slow-lines`.
struct RunName {
  std::uint64_t seed = 1;
  Mode mode = Mode::kSync;
  int edition = kNewestEdition;
  bool durable = false;
  bool local = false;
  bool old = false;         // an old job
  bool slow_lines = false;  // a job over slow lines
  std::uint64_t old_steps = kOldSteps;
};

// How often a case occurred.
struct Tally {
  std::uint64_t times = 0, jobs = 0;
};

class Judge {
 public:
  // Empty: no error. `mutant`: null for none; `trace`: null for none.
  std::string Try(const RunName& name, const Mutant* mutant = nullptr,
                  std::function<void(const std::string&)> trace = nullptr);
  // Over all runs so far.
  const std::map<std::string, Tally>& counts() const { return counts_; }
  // Over all runs so far, in order. Two builds with the same hash sent the same messages at the same times, and their
  // jobs ended with the same weights.
  std::uint64_t events_hash() const { return events_.Digest(); }

 private:
  std::string Examine(const ClusterOptions& options, const Outcome& outcome);

  std::map<std::string, std::vector<float>> references_;
  std::map<std::string, Tally> counts_;
  Hasher events_;
};

// One line each: how often a case occurred, in how many jobs, and which case.
void PrintCounts(const Judge& judge);

ClusterOptions OptionsOf(const RunName& name);
std::string NameOf(Mode mode);

}  // namespace capstan::sim
