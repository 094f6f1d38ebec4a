#include "server/coordinator/committed_steps.h"

#include <algorithm>
#include <utility>

#include "common/config/job_config.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "monitoring/metrics.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/hello_check.h"
#include "server/coordinator/journal.h"
#include "server/coordinator/shard_table.h"
#include "server/coordinator/snapshots.h"

namespace capstan::server {

CommittedSteps::CommittedSteps(const JobFacts& facts) : Steps(facts), shards_(facts.shards.size()) {}

// ---- generations ---------------------------------------------------------------------------------------------------

void CommittedSteps::EndGeneration() {
  pending_.reset();
  count_.reset();
  std::fill(shards_.begin(), shards_.end(), ShardReports{});
}

void CommittedSteps::Begin() {
  const RecoverRecord& recover = facts_.journal.recover();
  step_ = Step{recover.snapshot.version.value};
  parameters_ = recover.parameters;
  attempt_ = 0;
}

// Takes over at the newest version that a shard has published. Other shards may lack the Commit that made this version,
// so it is sent again, unchanged except for the new term.
void CommittedSteps::Resume(Instant now, Outbox* out) {
  const Hello* newest = &*facts_.shards[0].hello;
  for (const ShardEntry& shard : facts_.shards) {
    if (shard.hello->version > newest->version) newest = &*shard.hello;
  }
  step_ = Step{newest->version.value};
  parameters_ = facts_.journal.recover().parameters;
  attempt_ = 0;  // shards may be at different attempts; Decide is pure, so it repeats an earlier Redo
  pending_.reset();
  if (newest->last_commit) {
    Commit commit = *newest->last_commit;
    commit.term = facts_.journal.term();
    parameters_ = commit.next;
    pending_ = commit;
  }
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    const Hello& hello = *facts_.shards[i].hello;
    if (hello.version.value > 0) shards_[i].committed = Step{hello.version.value - 1};
    shards_[i].prepared = hello.prepared;
    if (hello.prepared && hello.prepared->step != step_) shards_[i].prepared.reset();
  }
  count_.reset();
  Announce(now, out);
}

void CommittedSteps::ForgetShard(ShardIndex shard) {
  shards_[shard] = {};
  count_.reset();
}

void CommittedSteps::ForgetLastCommitted() {
  for (ShardReports& shard : shards_) {
    if (!shard.committed || shard.committed->Next() != step_) continue;
    shard.committed.reset();
    if (step_.value > 1) shard.committed = Step{step_.value - 2};
  }
}

void CommittedSteps::NotePublished(Step step) {
  for (ShardReports& shard : shards_) {
    if (step.value > 0) shard.committed = Step{step.value - 1};
  }
}

// ---- reports -------------------------------------------------------------------------------------------------------

bool CommittedSteps::Take(const Prepared& prepared, Instant now, Outbox* out) {
  if (prepared.step < step_) {  // the shard may lack the newest Commit, which pending_ repeats; it has all older ones
    if (pending_) out->Send(facts_.shards[prepared.shard].peer, *pending_);
    return false;
  }
  if (!Fits(prepared.report, prepared.shard, facts_)) return false;
  ShardReports& shard = shards_[prepared.shard];
  if (shard.HasPrepared(prepared.step, prepared.attempt)) return false;
  Count& count = CountPrepared();
  const bool counted = shard.HasPrepared(step_, 0), counted_here = shard.HasPrepared(step_, attempt_);
  shard.prepared = prepared;
  if (prepared.step != step_) {  // of a step that a newer coordinator has begun; it replaces a report that was counted
    count_.reset();
    return true;
  }
  if (!counted && shard.HasPrepared(step_, 0)) ++count.any;
  if (!counted_here && shard.HasPrepared(step_, attempt_)) ++count.all;
  if (prepared.attempt == 0 && prepared.step == step_) MeasureStragglers(now);
  return true;
}

bool CommittedSteps::Take(const Committed& committed) {
  if (committed.step >= step_) return false;
  std::optional<Step>& newest = shards_[committed.shard].committed;
  if (!newest || *newest < committed.step) newest = committed.step;
  return true;
}

CommittedSteps::Count& CommittedSteps::CountPrepared() {
  if (count_ && count_->step == step_ && count_->attempt == attempt_) return *count_;
  count_ = Count{step_, attempt_};
  for (const ShardReports& shard : shards_) {
    count_->any += shard.HasPrepared(step_, 0) ? 1 : 0;
    count_->all += shard.HasPrepared(step_, attempt_) ? 1 : 0;
  }
  return *count_;
}

std::vector<const Prepared*> CommittedSteps::AllPrepared() {
  std::vector<const Prepared*> prepared;
  if (CountPrepared().all < shards_.size()) return prepared;
  for (const ShardReports& shard : shards_) prepared.push_back(&*shard.prepared);
  return prepared;
}

// Measures the time between the first and the last shard's report of the step under way.
void CommittedSteps::MeasureStragglers(Instant now) {
  const std::size_t count = CountPrepared().any;
  if (count == 1) first_prepared_ = now;
  if (count == shards_.size()) facts_.metrics.straggler_seconds.Observe(now - first_prepared_);
}

// ---- decisions -----------------------------------------------------------------------------------------------------

Steps::Decision CommittedSteps::Decide(const Snapshots& snapshots, bool stopping, Instant now, Outbox* out) {
  Decision decision;
  if (parameters_.stop) return decision;
  Verdict verdict;
  while (true) {
    // Reports of later attempts count too: an earlier coordinator may have asked some shards for a Redo.
    decision.reports = AllPrepared();
    if (decision.reports.empty()) return decision;
    verdict = capstan::Decide(facts_.options.config, *facts_.journal.catalog(), *facts_.journal.segment_order(),
                              decision.reports, attempt_, parameters_);
    if (verdict.kind != Verdict::Kind::kRedo) break;
    ++attempt_;
    facts_.metrics.steps_redone.Add(1);
    pending_ = Redo{facts_.journal.term(),           facts_.journal.generation(), step_, attempt_, verdict.clip,
                    std::move(verdict.trust_ratios), verdict.clip_value};
    Announce(now, out);
  }
  if (verdict.kind == Verdict::Kind::kStop) {
    decision.failure = Refused(std::move(verdict.reason));
    decision.suspects = std::move(verdict.suspects);
    return decision;
  }
  (verdict.action == StepAction::kApply ? facts_.metrics.steps_applied : facts_.metrics.steps_skipped).Add(1);
  PlanNext(snapshots, stopping, now, &verdict.next);
  if (verdict.next.snapshot) decision.snapshot = Version{step_.value + 1};
  pending_ = Commit{facts_.journal.term(), facts_.journal.generation(), step_, attempt_, verdict.action, verdict.next};
  decision.records.push_back(std::move(verdict.record));
  step_ = step_.Next();
  attempt_ = 0;
  parameters_ = verdict.next;
  return decision;
}

void CommittedSteps::PlanNext(const Snapshots& snapshots, bool, Instant now, StepParameters* next) const {
  const Version existing = facts_.journal.recover().snapshot.version;
  next->snapshot = !next->stop && snapshots.IsDueAt(step_.Next(), existing, snapshots.newest_began(), now);
}

void CommittedSteps::Announce(Instant now, Outbox* out) {
  backoff_.Restart();
  Repeat(now, out);
}

void CommittedSteps::Repeat(Instant now, Outbox* out) {
  if (!pending_ || !backoff_.Due(now)) return;
  const auto* commit = pending_->As<Commit>();
  const auto* redo = pending_->As<Redo>();
  bool sent = false;
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    const bool answered = commit != nullptr ? shards_[i].committed && *shards_[i].committed >= commit->step
                                            : shards_[i].HasPrepared(redo->step, redo->attempt);
    const PeerId peer = facts_.shards[i].peer;
    if (answered || peer.value == 0) continue;
    out->Send(peer, *pending_);
    sent = true;
  }
  if (sent) backoff_.Sent(now);
}

bool CommittedSteps::AllPublished() const {
  return step_.value == facts_.journal.recover().snapshot.version.value ||
         std::all_of(shards_.begin(), shards_.end(), [&](const ShardReports& shard) {
           return shard.committed && shard.committed->value + 1 == step_.value;
         });
}

}  // namespace capstan::server
