#include "server/coordinator/bound.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/config/job/limits_section.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/job.h"
#include "server/coordinator/waiting.h"

namespace capstan::server {
namespace {

constexpr double kOthersWaitLeast = 0.25;  // of the other workers' time: then one is a straggler
constexpr double kLessWaitLeast = 0.2;     // by which it waits less than they do
constexpr double kBusyLeast = 0.5;         // of a shard's time: then it is what workers wait for

std::string Percent(double share) { return std::to_string(std::lround(100 * share)) + " %"; }
std::string Quoted(const std::string& name) { return "\"" + name + "\""; }

struct Known {
  const Worker* worker;
  TimeShares shares;
};

// Lists the workers with slots that have reported where their time goes.
std::vector<Known> ListKnown(const Job& job) {
  std::vector<Known> all;
  for (const auto& [joined, worker] : job.members.workers()) {
    TimeShares shares;
    if (!worker.slots.empty() && FindShares(worker, &shares)) all.push_back({&worker, shares});
  }
  return all;
}

TimeShares MeanOf(const std::vector<Known>& workers) {
  TimeShares mean;
  const auto count = static_cast<double>(workers.size());
  for (const Known& one : workers) {
    mean.compute += one.shares.compute / count;
    mean.input += one.shares.input / count;
    mean.exchange += one.shares.exchange / count;
    mean.commit += one.shares.commit / count;
  }
  return mean;
}

Bound AtTheEnd(const Job& job) {
  switch (job.state.now()) {
    case CoordinatorState::kFailed:
      return {"unknown", "", "The job has failed: " + job.state.failure().message() + "."};
    case CoordinatorState::kStopped: return {"unknown", "", "The job was stopped."};
    default: break;
  }
  if (job.AwaitsLastSnapshot())
    return {"snapshot", "", "All steps are done; the last snapshot waits for " + job.snapshots.MissingParts() + "."};
  return {"unknown", "", "All steps are done."};
}

// A worker that has computed one step for far longer than usual.
std::optional<Bound> FindSlow(const Job& job, Instant now) {
  const Instant limit = job.records.SlowAfter(job.options.slow_after);
  for (const auto& [joined, worker] : job.members.workers()) {
    if (!IsSlow(worker, job.work(), now, limit)) continue;
    return Bound{"straggler", worker.name,
                 Quoted(worker.name) + " has computed step " + std::to_string(worker.step.value) + " for " +
                     WholeSeconds(now - worker.pace.since) + ", far longer than usual."};
  }
  return std::nullopt;
}

// A worker that waits much less than the others do, because they wait for it.
std::optional<Bound> FindStraggler(const Job& job, std::vector<Known> workers) {
  if (workers.size() < 2) return std::nullopt;
  const auto slowest = std::min_element(workers.begin(), workers.end(), [](const Known& a, const Known& b) {
    return a.shares.waits() < b.shares.waits();
  });
  const Known one = *slowest;
  workers.erase(slowest);
  const double others = MeanOf(workers).waits();
  if (others < kOthersWaitLeast || others - one.shares.waits() < kLessWaitLeast) return std::nullopt;
  std::string sentence = Quoted(one.worker->name) + " is the slowest worker: the others wait " + Percent(others) +
                         " of their time, and it waits " + Percent(one.shares.waits()) + ".";
  const std::size_t slots = one.worker->slots.size();
  if (slots * (workers.size() + 1) > job.slot_count())
    sentence += " It has " + std::to_string(slots) + " of the " + std::to_string(job.slot_count()) + " slots.";
  return Bound{"straggler", one.worker->name, std::move(sentence)};
}

// The workers wait most of the time, and none waits for another.
Bound FindServerOrNetwork(const Job& job, double waits) {
  double busiest = 0;
  ShardIndex which = 0;
  for (ShardIndex i = 0; i < job.shards.size(); ++i) {
    const auto busy = job.shards[i].time.shares();
    if (!busy || (*busy)[0] <= busiest) continue;
    busiest = (*busy)[0];
    which = i;
  }
  const std::string wait = "workers wait " + Percent(waits) + " of their time for weights and for the next step";
  if (busiest >= kBusyLeast) {
    const std::string name = job.shards.NameOf(which);
    return {"server", name, "The " + wait + ", and " + name + " is busy " + Percent(busiest) + " of the time."};
  }
  return {"network", "",
          "The " + wait + ". No server is busy for more than " + Percent(busiest) +
              ", and no worker is always the slowest: the time goes into messages between them."};
}

// Without shards no step is done, and then workers only wait for these, too.
std::optional<Bound> FindMissingShards(const Job& job, Instant now) {
  std::string names, only;
  for (ShardIndex i = 0; i < job.shards.size(); ++i) {
    const ShardEntry& shard = job.shards[i];
    if (!shard.hello || !shard.IsSilent(now)) continue;
    only = names.empty() ? job.shards.NameOf(i) : "";
    AddName(&names, job.shards.NameOf(i) + ", silent for " + WholeSeconds(now - shard.last_message));
  }
  if (names.empty()) return std::nullopt;
  return Bound{"waiting", only, "The job waits for " + names + "."};
}

}  // namespace

bool FindShares(const Worker& worker, TimeShares* shares) {
  const auto known = worker.pace.time.shares();
  if (!known) return false;
  const auto [input, exchange, commit] = *known;
  const double whole = std::max(1.0, input + exchange + commit);
  *shares = {0, input / whole, exchange / whole, commit / whole};
  shares->compute = 1 - shares->input - shares->waits();
  return true;
}

Bound FindBound(const Job& job, Instant now) {
  const CoordinatorState state = job.state.now();
  if (state == CoordinatorState::kFinished || state == CoordinatorState::kStopped || state == CoordinatorState::kFailed)
    return AtTheEnd(job);
  if (std::optional<Bound> missing = FindMissingShards(job, now)) return *std::move(missing);
  if (std::string line = WaitingLine(job, now); !line.empty()) return {"waiting", "", "The job is " + line + "."};
  if (state != CoordinatorState::kRunning || job.journal.AwaitsInitialWeights() || job.members.size() == 0) {
    const std::string who = WaitingFor(job, now);
    return {"waiting", "", who.empty() ? "The job begins." : "The job waits for " + who + "."};
  }
  if (job.stopping()) return {"snapshot", "", "The job stops, and takes its last snapshot."};
  if (std::optional<Bound> slow = FindSlow(job, now)) return *std::move(slow);
  const std::vector<Known> workers = ListKnown(job);
  if (workers.empty()) return {"unknown", "", "The workers have not yet reported where their time goes."};
  if (std::optional<Bound> straggler = FindStraggler(job, workers)) return *std::move(straggler);
  const TimeShares mean = MeanOf(workers);
  if (mean.waits() > std::max(mean.compute, mean.input)) return FindServerOrNetwork(job, mean.waits());
  if (mean.input > mean.compute)
    return {"input", "", "Reading samples bounds the job: it takes " + Percent(mean.input) + " of the workers' time."};
  return {"compute", "", "Computing bounds the job: it takes " + Percent(mean.compute) + " of the workers' time."};
}

}  // namespace capstan::server
