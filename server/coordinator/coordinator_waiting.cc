// Whom a job waits for, and when it gives up.
#include <algorithm>

#include "common/config/job/cluster_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/wire/messages/group_state.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_shard.h"
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
    if (shard >= shards_.size() || !shards_[shard].hello) continue;
    AddName(&names,
            ShardName(shard, options_.config.cluster.shards_per_server) + " at " + shards_[shard].hello->endpoint);
  }
  return names.empty() ? ""
                       : ", gets no answer from " + names + ": check cluster.advertise and the network between them";
}

// The shards' activity in this Reset, as text.
const char* Coordinator::ResettingText() const {
  if (!GoingOn()) return recover_->snapshot.IsNone() ? " (beginning)" : " (loading its snapshot)";
  return WorkersUpdate(options_.config.mode()) ? " (leaving the step under way)"
                                               : " (loading its snapshot and its log)";
}

std::string Coordinator::WaitingFor(Instant now) const {
  std::string who;
  const std::uint32_t per_server = options_.config.cluster.shards_per_server;
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    const ShardState& shard = shards_[i];
    if (!shard.ahead.empty()) {
      AddName(&who, shard.ahead);
    } else if (!shard.hello) {
      AddName(&who, ShardName(i, per_server) + " (never seen)");
    } else if (now - shard.last_heard >= kShardSilence) {
      AddName(&who, ShardName(i, per_server) + " at " + shard.hello->endpoint + " (silent for " +
                        WholeSeconds(now - shard.last_heard) + ")");
    }
  }
  for (ShardIndex i = 0; i < shards_.size() && state_ == State::kResetting; ++i) {
    if (shards_[i].reset_done || !shards_[i].hello) continue;
    AddName(&who, ShardName(i, per_server) + ResettingText());
  }
  if (AwaitsLastSnapshot()) {
    AddMissingParts(&who);
    return who;
  }
  if (std::string missing = ranks_.Missing(slot_count_, members_, now); !missing.empty()) AddName(&who, missing);
  const std::size_t wanted = options_.config.cluster.workers;
  if (state_ != State::kRunning && members_.size() < wanted) {
    AddName(&who, std::to_string(wanted - members_.size()) + " of " + std::to_string(wanted) + " workers (not joined)");
  }
  if (state_ == State::kRunning && AwaitsFirstWeights()) {
    AddName(&who, WaitingForFirstWeights());
  } else if (state_ == State::kRunning) {
    if (members_.size() == 0) AddName(&who, "a worker (none is left)");
    for (const auto& [session, worker] : members_.workers()) {
      const bool at_work = worker.computing || worker.step < step_ || worker.generation != generation_;
      const bool forms = WorkersUpdate(options_.config.mode()) && worker.group != GroupState::kFormed;
      if (worker.slots.empty() || (!at_work && !forms && worker.missing.empty())) continue;
      AddName(&who, "\"" + worker.name + "\" (" + (forms ? "forming a group, " : "") + "step " +
                        std::to_string(worker.step.value) + ", last heard " + WholeSeconds(now - worker.last_heard) +
                        " ago" + UnreachableFrom(worker) + ")");
    }
  }
  return who;
}

bool Coordinator::MayWait() const {
  const bool ended = state_ == State::kFinished || state_ == State::kStopped || state_ == State::kFailed;
  return AwaitsLastSnapshot() || !(ended || stop_requested_);
}

// Whether the job has not begun yet.
bool Coordinator::Gathering() const {
  const bool led_astray = std::any_of(shards_.begin(), shards_.end(), [](const auto& s) { return !s.ahead.empty(); });
  return !recover_ || (state_ == State::kCollecting && led_astray);
}

double Coordinator::WaitLimit() const {
  if (Gathering()) return options_.config.limits.join;
  return options_.config.limits.stall > 0 ? options_.config.limits.stall + ArrivalSeconds() : 0.0;
}

// How long a version may take to arrive: on each shard, which loads its part; or, in mode allreduce, with a worker that
// receives all of it, or on the shards when workers upload it.
double Coordinator::ArrivalSeconds() const {
  if (!catalog_) return 0.0;
  const int arrays = 1 + StateCount(options_.config.optimizer.kind);
  const double seconds = static_cast<double>(catalog_->element_count()) * sizeof(float) * arrays / kSlowestLine;
  if (state_ == State::kResetting) return seconds / static_cast<double>(shards_.size());
  if (state_ != State::kRunning || !WorkersUpdate(options_.config.mode())) return 0.0;
  const bool formed = std::all_of(members_.workers().begin(), members_.workers().end(), [](const auto& entry) {
    return entry.second.slots.empty() || entry.second.group == GroupState::kFormed;
  });
  return formed && !parameters_.keep ? 0.0 : seconds;
}

std::string Coordinator::WaitingLine(Instant now) const {
  const Instant waited = now - last_progress_;
  if (!MayWait() || waited < Seconds(options_.config.limits.report)) return "";
  const std::string waiting = WaitingFor(now);
  return "waiting " + WholeSeconds(waited) + " for " + (waiting.empty() ? "the shards' answers" : waiting) +
         (WaitLimit() > 0 ? "; giving up after " + WholeSeconds(Seconds(WaitLimit())) : "");
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
  if (WaitLimit() > 0 && waited >= Seconds(WaitLimit())) {
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
    next_report_ = now + Seconds(options_.config.limits.report);
    out->Say(Severity::kWarning, line);
  }
}

}  // namespace capstan::server
