// Whom a job waits for, and when it gives up.
#include <algorithm>

#include "common/config/job/cluster_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/wire/messages/group_state.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_text.h"
#include "update/optimizer.h"

namespace capstan::server {

namespace {

constexpr double kSlowestLine = 8 << 20;  // bytes per second: the slowest transfer that the job waits for

}  // namespace

// Which shards a worker cannot reach, such as ", gets no answer from server 1 at tcp://10.0.0.7:29601"; empty: it
// reaches all.
std::string Coordinator::UnreachableFrom(const Worker& worker) const {
  std::string names;
  for (ShardIndex shard : worker.missing) {
    if (shard >= job_.shards.size() || !job_.shards[shard].hello) continue;
    AddName(&names, job_.shards.NameOf(shard) + " at " + job_.shards[shard].hello->endpoint);
  }
  return names.empty() ? ""
                       : ", gets no answer from " + names + ": check cluster.advertise and the network between them";
}

// The shards' activity in this Reset, as text.
const char* Coordinator::ResettingText() const {
  if (!job_.journal.ContinuesTimeline())
    return job_.journal.recover().snapshot.IsNone() ? " (beginning)" : " (loading its snapshot)";
  return WorkersUpdate(job_.options.config.mode()) ? " (leaving the step under way)"
                                                   : " (loading its snapshot and its log)";
}

std::string Coordinator::WaitingFor(Instant now) const {
  std::string who;
  for (ShardIndex i = 0; i < job_.shards.size(); ++i) {
    const ShardEntry& shard = job_.shards[i];
    if (!shard.beyond_log.empty()) {
      AddName(&who, shard.beyond_log);
    } else if (!shard.hello) {
      AddName(&who, job_.shards.NameOf(i) + " (never seen)");
    } else if (shard.IsSilent(now)) {
      AddName(&who, job_.shards.NameOf(i) + " at " + shard.hello->endpoint + " (silent for " +
                        WholeSeconds(now - shard.last_heard) + ")");
    }
  }
  for (ShardIndex i = 0; i < job_.shards.size() && job_.state.now() == State::kResetting; ++i) {
    if (job_.shards[i].has_begun || !job_.shards[i].hello) continue;
    AddName(&who, job_.shards.NameOf(i) + ResettingText());
  }
  if (AwaitsLastSnapshot()) {
    for (ShardIndex i = 0; i < job_.shards.size(); ++i) {
      if (!job_.snapshots.HasPart(i)) AddName(&who, job_.shards.NameOf(i) + " (writing the last snapshot)");
    }
    return who;
  }
  if (std::string missing = ranks_.Missing(job_.slot_count, members_, now); !missing.empty()) AddName(&who, missing);
  const std::size_t wanted = job_.options.config.cluster.workers;
  if (job_.state.now() != State::kRunning && members_.size() < wanted) {
    AddName(&who, std::to_string(wanted - members_.size()) + " of " + std::to_string(wanted) + " workers (not joined)");
  }
  if (job_.state.now() == State::kRunning && job_.journal.AwaitsInitialWeights()) {
    AddName(&who, WaitingForFirstWeights());
  } else if (job_.state.now() == State::kRunning) {
    if (members_.size() == 0) AddName(&who, "a worker (none is left)");
    for (const auto& [session, worker] : members_.workers()) {
      const bool at_work =
          worker.computing || worker.step < job_.steps->step() || worker.generation != job_.journal.generation();
      const bool forms = WorkersUpdate(job_.options.config.mode()) && worker.group != GroupState::kFormed;
      if (worker.slots.empty() || (!at_work && !forms && worker.missing.empty())) continue;
      AddName(&who, "\"" + worker.name + "\" (" + (forms ? "forming a group, " : "") + "step " +
                        std::to_string(worker.step.value) + ", last heard " + WholeSeconds(now - worker.last_heard) +
                        " ago" + UnreachableFrom(worker) + ")");
    }
  }
  return who;
}

bool Coordinator::MayWait() const {
  const bool ended =
      job_.state.now() == State::kFinished || job_.state.now() == State::kStopped || job_.state.now() == State::kFailed;
  return AwaitsLastSnapshot() || !(ended || stop_requested_);
}

// Whether the job has not begun yet.
bool Coordinator::Gathering() const {
  return !job_.journal.has_begun() || (job_.state.now() == State::kCollecting && job_.shards.AnyIsBeyondLog());
}

double Coordinator::WaitLimit() const {
  if (Gathering()) return job_.options.config.limits.join;
  return job_.options.config.limits.stall > 0 ? job_.options.config.limits.stall + ArrivalSeconds() : 0.0;
}

// How long a version may take to arrive: on each shard, which loads its part; or, in mode allreduce, with a worker that
// receives all of it, or on the shards when workers upload it.
double Coordinator::ArrivalSeconds() const {
  if (!job_.journal.catalog()) return 0.0;
  const int arrays = 1 + StateCount(job_.options.config.optimizer.kind);
  const double seconds =
      static_cast<double>(job_.journal.catalog()->element_count()) * sizeof(float) * arrays / kSlowestLine;
  if (job_.state.now() == State::kResetting) return seconds / static_cast<double>(job_.shards.size());
  if (job_.state.now() != State::kRunning || !WorkersUpdate(job_.options.config.mode())) return 0.0;
  const bool formed = std::all_of(members_.workers().begin(), members_.workers().end(), [](const auto& entry) {
    return entry.second.slots.empty() || entry.second.group == GroupState::kFormed;
  });
  return formed && !job_.steps->parameters().keep ? 0.0 : seconds;
}

std::string Coordinator::WaitingLine(Instant now) const {
  const Instant waited = now - last_progress_;
  if (!MayWait() || waited < FromSeconds(job_.options.config.limits.report)) return "";
  const std::string waiting = WaitingFor(now);
  return "waiting " + WholeSeconds(waited) + " for " + (waiting.empty() ? "the shards' answers" : waiting) +
         (WaitLimit() > 0 ? "; giving up after " + WholeSeconds(FromSeconds(WaitLimit())) : "");
}

// Text such as "; since the last step 9 generations have begun, the newest because: ..."; empty if none has.
std::string Coordinator::AttemptsText() const {
  const std::uint32_t count = attempts_.recoveries + attempts_.groups;
  if (count == 0 || attempts_.cause.empty()) return "";
  return "; since the last step " + Count(count, "generation") + (count == 1 ? " has" : " have") +
         " begun, the newest because: " + attempts_.cause;
}

void Coordinator::CheckDeadlines(Instant now, Outbox* out) {
  if (!MayWait()) return;
  const Instant waited = now - last_progress_;
  if (WaitLimit() > 0 && waited >= FromSeconds(WaitLimit())) {
    const std::string waiting = WaitingFor(now);
    const char* const what = Gathering()            ? "the job did not start within "
                             : AwaitsLastSnapshot() ? "the last snapshot was not complete after "
                                                    : "no step was committed for ";
    Fail(Timeout(what + WholeSeconds(waited) + "; waited for: " + (waiting.empty() ? "nobody in particular" : waiting) +
                 AttemptsText()),
         out);
  } else if (now >= next_report_) {
    const std::string line = WaitingLine(now);
    if (line.empty()) return;
    next_report_ = now + FromSeconds(job_.options.config.limits.report);
    out->Say(Severity::kWarning, line);
  }
}

}  // namespace capstan::server
