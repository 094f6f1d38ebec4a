// CommittedSteps: steps that all shards prepare and the coordinator commits, as in mode sync.
//
// Kind:   owned by the Coordinator; a value.
// Why:    clipping, trust ratios and the finite check need the whole gradient, so shards report sums and wait. A
//         decision is repeated until every shard has answered. A restarted coordinator may decide a Redo again, with
//         the same result, because the verdict is a pure function of the reports.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "common/base/backoff.h"
#include "common/wire/message.h"
#include "common/wire/messages/prepared.h"
#include "server/coordinator/steps.h"

namespace capstan::server {

class CommittedSteps : public Steps {
 public:
  explicit CommittedSteps(const JobFacts& facts);

  void EndGeneration() override;
  void Begin() override;
  void Resume(Instant now, Outbox* out) override;
  void ForgetShard(ShardIndex shard) override;
  bool Take(const Prepared& prepared, Instant now, Outbox* out) override;
  bool Take(const Committed& committed) override;
  Decision Decide(const Snapshots& snapshots, bool stopping, Instant now, Outbox* out) override;
  void Announce(Instant now, Outbox* out) override;
  void Repeat(Instant now, Outbox* out) override;
  bool AllPublished() const override;
  bool TakesPins() const override { return AllPublished(); }
  bool AllowsBackups() const override { return true; }

 protected:
  // Sets the fields of the next step's parameters that concern snapshots.
  virtual void PlanNext(const Snapshots& snapshots, bool stopping, Instant now, StepParameters* next) const;
  // Whether a decision is being repeated to shards that have not answered.
  bool pending() const { return pending_.has_value(); }
  // Forgets that shards have answered the Commit of the newest step, so that it is sent to them again.
  void ForgetLastCommitted();
  // Notes that every shard has published the version with which `step` begins.
  void NotePublished(Step step);

 private:
  struct ShardReports {
    std::optional<Prepared> prepared;  // the last report that was taken, perhaps not of step_
    std::optional<Step> committed;     // the newest step whose version this shard has published

    bool HasPrepared(Step step, std::uint32_t attempt) const {
      return prepared && prepared->step == step && prepared->attempt >= attempt;
    }
  };
  // Counts the shards that have reported `step`. `any`: in any attempt; `all`: in `attempt` or a later one.
  struct Count {
    Step step;
    std::uint32_t attempt = 0;
    std::size_t any = 0, all = 0;
  };

  Count& CountPrepared();
  // Returns the shards' reports of step_ in attempt_ or a later attempt; empty while a report is missing.
  std::vector<const Prepared*> AllPrepared();
  void MeasureStragglers(Instant now);

  std::vector<ShardReports> shards_;
  std::uint32_t attempt_ = 0;
  std::optional<Count> count_;     // empty: count again
  std::optional<Header> pending_;  // Commit or Redo, repeated until all shards have answered
  Backoff backoff_;
  Instant first_prepared_{};  // when the first report of step_ arrived
};

}  // namespace capstan::server
