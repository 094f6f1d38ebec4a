// The shards' reports to the coordinator: their identity and their progress.
#include <algorithm>

#include "common/base/host_port.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/shard_address.h"
#include "common/wire/messages/shard_orders.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_shard.h"
#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

namespace {

constexpr std::uint64_t kLivesMax = std::uint64_t{1} << 48;  // terms and generations of a job

}  // namespace

Status Coordinator::CheckHello(const Hello& hello) const {
  const std::uint64_t newest = std::max({hello.term.value, hello.generation.value, hello.newest_kept.generation.value});
  if (newest > kLivesMax) return Invalid("a Hello says number " + std::to_string(newest) + ", which no job reaches");
  if (hello.shard >= shards_.size()) {
    return Refused("shard index " + std::to_string(hello.shard) + " is not below the job's " +
                   std::to_string(shards_.size()) + " shards; check --index and cluster.servers");
  }
  if (hello.config_hash != config_hash_) {
    return Refused(ShardName(hello.shard, job_.options.config.cluster.shards_per_server) +
                   " was started with another job file than the coordinator; start all of them with the same file");
  }
  if (!hello.job.IsNull() && hello.job != job_.journal.job()) {
    return Refused(ShardName(hello.shard, job_.options.config.cluster.shards_per_server) +
                   "'s directory belongs to another job; start that server with another --run-dir, or move its folder "
                   "away; nothing in it is lost");
  }
  return CheckHelloParts(hello);
}

// Events that the shard has seen and our log lacks; empty: none. Another coordinator has then taken over, or our directory
// is an old copy: this coordinator decides nothing, and the shard is not at fault.
std::string Coordinator::AheadOfUs(const Hello& hello) const {
  const Generation generation = std::max(hello.generation, hello.newest_kept.generation);
  const bool unknown =
      hello.newest_kept.generation == job_.journal.generation() && hello.newest_kept > job_.journal.newest_snapshot();
  if (hello.term <= job_.journal.term() && generation <= job_.journal.generation() && !unknown) return "";
  return ShardName(hello.shard, job_.options.config.cluster.shards_per_server) + " has seen term " +
         std::to_string(hello.term.value) + ", generation " + std::to_string(generation.value) +
         ", and the snapshot of version " + std::to_string(hello.newest_kept.version.value) +
         " of this job; this coordinator's log ends with term " + std::to_string(job_.journal.term().value) +
         ", generation " + std::to_string(job_.journal.generation().value) + " and the snapshot of version " +
         std::to_string(job_.journal.newest_snapshot().version.value) +
         ": another coordinator has taken over, or its log is an old copy (then bring the newer one back, or go on "
         "from " +
         NewestCommon(hello) + " by --accept-rollback)";
}

// The newest snapshot that both this shard and the log know.
std::string Coordinator::NewestCommon(const Hello& hello) const {
  for (auto manifest = job_.journal.manifests().rbegin(); manifest != job_.journal.manifests().rend(); ++manifest) {
    const bool there = std::any_of(hello.parts.begin(), hello.parts.end(),
                                   [&](const SnapshotPart& part) { return part.id == manifest->id; });
    if (there) return "the snapshot of version " + std::to_string(manifest->id.version.value);
  }
  return "version 0";
}

// Whether a shard that is ahead of the log is taken back, as the operator has accepted. Every shard must then echo a
// term newer than all of theirs, and the next generation is above all of theirs.
bool Coordinator::Overrules(const Hello& hello, Outbox* out) {
  if (!job_.options.accept_rollback || job_.state.now() != State::kCollecting) return false;
  const Generation seen = std::max(hello.generation, hello.newest_kept.generation);
  if (!overruled_)
    out->Say(Severity::kWarning, "rolling back: the log counts, and what shards know beyond it does not");
  overruled_ = std::max(overruled_.value_or(job_.journal.generation()), seen);
  if (hello.term <= job_.journal.term()) return true;
  Append(TermRecord{hello.term.Next()});
  for (ShardState& shard : shards_) shard.fresh = false;
  return true;
}

bool Coordinator::Fits(const PrepareReport& report, ShardIndex shard) const {
  const std::size_t segments = job_.journal.segment_order()->segment_count(shard);
  const std::size_t trusted = TakesTrustRatio(job_.options.config.optimizer.kind) ? segments : 0;
  return report.segment_squares.size() == segments && report.weight_squares.size() == trusted &&
         report.direction_squares.size() == trusted;
}

// A new coordinator builds on these fields: they must agree with each other and with the catalog.
Status Coordinator::CheckHelloParts(const Hello& hello) const {
  bool fits = true;
  if (hello.prepared) {
    const Prepared& prepared = *hello.prepared;
    fits = job_.journal.segment_order() && prepared.shard == hello.shard && prepared.incarnation == hello.incarnation &&
           prepared.generation == hello.generation && prepared.step.value == hello.version.value &&
           Fits(prepared.report, hello.shard);
  }
  if (hello.last_commit) {
    const bool regrouped =
        WorkersUpdate(job_.options.config.mode()) && hello.last_commit->generation < hello.generation;
    fits = fits && (regrouped || hello.last_commit->generation == hello.generation) &&
           hello.last_commit->step.Next().value == hello.version.value;
  } else if (HasGlobalSteps(job_.options.config.mode())) {
    const bool begun = hello.serving && job_.journal.has_begun() && hello.generation == job_.journal.generation();
    fits = fits && (!hello.serving || !begun || hello.version == job_.journal.recover().snapshot.version);
  }
  if (fits) return {};
  return Invalid(ShardName(hello.shard, job_.options.config.cluster.shards_per_server) +
                 " says Hello with parts that do not belong together");
}

// Whether `hello` comes from the process that owns this index. Of two live processes with one index, the
// first keeps it.
bool Coordinator::AcceptHello(ShardState* shard, PeerId from, const Hello& hello, Instant now, Outbox* out) {
  if (!shard->hello || (from == shard->peer && hello.incarnation == shard->hello->incarnation)) {
    if (shard->rival.value != 0 && now > shard->rival_since) {
      RefuseTo(shard->rival, Code::kRefused,
               ShardName(hello.shard, job_.options.config.cluster.shards_per_server) + " is already running at " +
                   hello.endpoint + "; stop one of the two or give this one another --index",
               out);
      shard->rival = {};
    }
    return true;
  }
  if (from == shard->peer) return hello.incarnation > shard->hello->incarnation;  // else a late message
  // The new process has our job's directory, which only one process can lock: the old one is dead.
  const bool owns = !hello.job.IsNull() || now - shard->last_heard >= kShardSilence;
  if (owns && hello.incarnation > shard->hello->incarnation) return true;
  if (shard->rival != from) {  // the regular Ping shows whether the first one lives
    shard->rival = from;
    shard->rival_since = now;
  } else if (owns && now - shard->rival_since >= kShardSilence) {
    RefuseEarlierLife(hello, out);
    shard->rival = {};
  }
  return false;
}

// A process that repeats Hello is alive: this is not a late message of an earlier incarnation.
void Coordinator::RefuseEarlierLife(const Hello& hello, Outbox* out) const {
  const Hello& known = *shards_[hello.shard].hello;
  const std::string why = ShardName(hello.shard, job_.options.config.cluster.shards_per_server) + " at " +
                          hello.endpoint + " begins with life " + std::to_string(hello.incarnation.value) +
                          ", which is not above " + std::to_string(known.incarnation.value) +
                          ", the life before it at " + known.endpoint +
                          ": its directory is new or an old copy, and the clock of its machine is behind; set the "
                          "clock, and start it again";
  out->Say(Severity::kWarning, why);
  RefuseTo(shards_[hello.shard].rival, Code::kRefused, why, out, hello.incarnation);
}

std::string Coordinator::WhatALossCosts() const {
  if (AcknowledgesDurably()) return " with its log";
  return std::string("; every shard goes back to ") +
         (job_.journal.manifests().empty() ? "step 0" : "the newest snapshot");
}

void Coordinator::On(PeerId from, const Hello& hello, Instant now, Outbox* out) {
  if (Status status = CheckHello(hello); !status.ok()) {
    RefuseTo(from, status.code(), status.message(), out, hello.incarnation);
    out->Say(Severity::kWarning, status.message());
    return;
  }
  if (std::string ahead = AheadOfUs(hello); !ahead.empty() && !Overrules(hello, out)) {
    if (shards_[hello.shard].ahead.empty()) out->Say(Severity::kWarning, ahead);
    RefuseTo(from, Code::kStale, ahead, out, hello.incarnation);  // it counts as heard, and keeps waiting
    shards_[hello.shard].ahead = std::move(ahead);
    return;
  }
  ShardState& shard = shards_[hello.shard];
  if (!AcceptHello(&shard, from, hello, now, out)) return;
  const bool other_life = shard.hello && hello.incarnation != shard.hello->incarnation;
  if (other_life) {
    shard = {};
    prepared_count_.reset();
    clocks_.Set(hello.shard, 0);
  }
  const bool known = shard.hello.has_value();
  shard.peer = from;
  shard.last_heard = now;
  shard.rival = {};
  shard.ahead.clear();
  // Within one incarnation a shard's generation and term only rise, so a late Hello must not replace a newer one.
  if (!known || (hello.term >= shard.hello->term && hello.generation >= shard.hello->generation)) shard.hello = hello;
  for (const SnapshotPart& part : hello.parts) Remember(part, &shard);
  shard.fresh = shard.fresh || hello.term == job_.journal.term();
  if (!shard.fresh) {
    out->Send(from, Ping{job_.journal.term(), job_.journal.generation()});
    return;
  }
  const bool ran = (job_.state.now() == State::kRunning || job_.state.now() == State::kFinished) &&
                   job_.journal.running() && !job_.journal.concluded();
  if (ran && hello.incarnation > job_.journal.running()->incarnations[hello.shard]) {
    attempts_.cause = ShardName(hello.shard, job_.options.config.cluster.shards_per_server) + " was lost and came back";
    out->Say(Severity::kWarning, attempts_.cause + WhatALossCosts());
    StartRecovery(Recovery::kGoOn, now, out);
  }
  Advance(now, out);
}

void Coordinator::On(PeerId from, const ResetDone& done, Instant now, Outbox* out) {
  if (job_.state.now() != State::kResetting || !IsShard(from, done.shard) ||
      done.generation != job_.journal.generation())
    return;
  ShardState& shard = shards_[done.shard];
  if (!shard.hello || shard.hello->incarnation != done.incarnation) return;
  shard.reset_done = true;
  shard.last_heard = now;
  Advance(now, out);
}

void Coordinator::On(PeerId from, const ResetBad& bad, Instant now, Outbox* out) {
  if (job_.state.now() != State::kResetting || !IsShard(from, bad.shard) || bad.generation != job_.journal.generation())
    return;
  if (shards_[bad.shard].hello->incarnation != bad.incarnation) return;
  const std::string who = ShardName(bad.shard, job_.options.config.cluster.shards_per_server);
  if (job_.journal.recover().snapshot.IsNone() && !job_.journal.ContinuesTimeline())
    return Fail(Refused(who + " cannot begin the job: " + bad.reason), out);
  FallBack(who + ": " + bad.reason, now, out);
}

void Coordinator::On(PeerId from, const Prepared& prepared, Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning || !IsShard(from, prepared.shard) ||
      prepared.generation != job_.journal.generation())
    return;
  if (prepared.incarnation != job_.journal.running()->incarnations[prepared.shard]) return;
  ShardState& shard = shards_[prepared.shard];
  shard.last_heard = now;
  if (prepared.step < step_) {  // it has not seen the Commit: every shard has everything older than pending_
    if (pending_ && shard.hello) out->Send(shard.peer, *pending_);
    return;
  }
  if (!Fits(prepared.report, prepared.shard)) return;
  if (shard.prepared && shard.prepared->step == prepared.step && shard.prepared->attempt >= prepared.attempt) return;
  PreparedCount& count = CountPrepared();
  const bool counted = HasPrepared(shard, step_, 0), counted_here = HasPrepared(shard, step_, attempt_);
  shard.prepared = prepared;
  if (!counted && HasPrepared(shard, step_, 0)) ++count.any;
  if (!counted_here && HasPrepared(shard, step_, attempt_)) ++count.all;
  if (prepared.attempt == 0 && prepared.step == step_) MeasureStragglers(now);
  Advance(now, out);
}

bool Coordinator::HasPrepared(const ShardState& shard, Step step, std::uint32_t attempt) {
  return shard.prepared && shard.prepared->step == step && shard.prepared->attempt >= attempt;
}

Coordinator::PreparedCount& Coordinator::CountPrepared() {
  if (prepared_count_ && prepared_count_->step == step_ && prepared_count_->attempt == attempt_) {
    return *prepared_count_;
  }
  prepared_count_ = PreparedCount{step_, attempt_};
  for (const ShardState& shard : shards_) {
    prepared_count_->any += HasPrepared(shard, step_, 0) ? 1 : 0;
    prepared_count_->all += HasPrepared(shard, step_, attempt_) ? 1 : 0;
  }
  return *prepared_count_;
}

std::vector<const Prepared*> Coordinator::AllPrepared() {
  std::vector<const Prepared*> prepared;
  if (CountPrepared().all < shards_.size()) return prepared;
  for (const ShardState& shard : shards_) prepared.push_back(&*shard.prepared);
  return prepared;
}

// Measures the time between the first and the last shard's report.
void Coordinator::MeasureStragglers(Instant now) {
  const std::size_t count = CountPrepared().any;
  if (count == 1) first_prepared_ = now;
  if (count == shards_.size()) job_.metrics->straggler_seconds.Observe(now - first_prepared_);
}

void Coordinator::On(PeerId from, const Committed& committed, Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning || !IsShard(from, committed.shard) ||
      committed.generation != job_.journal.generation())
    return;
  if (committed.incarnation != job_.journal.running()->incarnations[committed.shard] || committed.step >= step_) return;
  ShardState& shard = shards_[committed.shard];
  shard.last_heard = now;
  if (!shard.committed || *shard.committed < committed.step) shard.committed = committed.step;
  Advance(now, out);
}

std::vector<ShardAddress> Coordinator::shards() const {
  std::vector<ShardAddress> addresses;
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    if (!shards_[i].hello) return {};
    addresses.push_back({i, shards_[i].hello->incarnation, shards_[i].hello->endpoint});
  }
  return addresses;
}

Roster Coordinator::roster() const {
  Roster roster;
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    if (!shards_[i].hello) continue;
    const Hello& hello = *shards_[i].hello;
    roster.shards.push_back({i, hello.endpoint, IsHostPort(hello.metrics) ? hello.metrics : ""});
  }
  for (const auto& [session, worker] : members_.workers()) roster.workers.push_back({worker.name, worker.metrics});
  return roster;
}

}  // namespace capstan::server
