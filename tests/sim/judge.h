// Judge: runs the job of a seed, and reports what is wrong with its outcome.
//
// Kind:   owned by one thread; caches the final weights of undisturbed runs.
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

// How many steps a job of `sim --old` has without `--steps`: enough to reach the low limits of OldJob many times.
inline constexpr std::uint64_t kOldSteps = 400;

// Names a run, as the options of the program `sim` do: `sim --seed N [--async | --bounded | --allreduce] [--durable]
// [--local | --median | --external | --shared] [--edition E]`, or `sim --seed N --old | --slow-lines`.
struct RunName {
  std::uint64_t seed = 1;
  Mode mode = Mode::kSync;
  int edition = kNewestEdition;
  bool durable = false;
  bool local = false;
  bool external = false;    // the optimizer stays in the program
  bool median = false;      // gradients are aggregated by their median
  bool shared = false;      // processes of one machine, which read payloads in each other's memory
  bool old = false;         // an old job
  bool slow_lines = false;  // a job over slow lines
  std::uint64_t old_steps = kOldSteps;
};

// How often a case occurred, and in how many jobs.
struct Tally {
  std::uint64_t times = 0, jobs = 0;
};

class Judge {
 public:
  // Runs the job. Returns what is wrong; empty: nothing. `mutant`: the rule to break, or null. `trace`: takes a line
  // for each event, or null.
  std::string Try(const RunName& name, const Mutant* mutant = nullptr,
                  std::function<void(const std::string&)> trace = nullptr);
  // Returns the tally of each case over all runs so far.
  const std::map<std::string, Tally>& counts() const { return counts_; }
  // Returns a hash over all runs so far, in order. If two builds have the same hash, their jobs sent the same messages
  // at the same times, and ended with the same weights.
  std::uint64_t events_hash() const { return events_.Digest(); }

 private:
  std::string Examine(const ClusterOptions& options, const Outcome& outcome);

  std::map<std::string, std::vector<float>> references_;
  std::map<std::string, Tally> counts_;
  Hasher events_;
};

// Prints a line for each case: how often it occurred, in how many jobs, and its name.
void PrintCounts(const Judge& judge);

ClusterOptions OptionsOf(const RunName& name);
std::string NameOf(Mode mode);

}  // namespace capstan::sim
