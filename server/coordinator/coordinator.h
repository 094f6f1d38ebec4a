// Coordinator: membership and slots, the decision on every step, recovery of shards. It handles small messages only and
// never touches a tensor.
//
// Kind:   owned by CoordinatorLoop's thread; a pure core.
// Limits: Membership::kWorkersMax workers; the shard count of the job file.
// Fails:  the job fails after limits.join while it gathers, and after limits.stall without a committed step or, at the
//         end, without a part of the last snapshot. The message names whom it waited for. The first recovery after a
//         step starts this time again; further ones do not.
// Why:    a new coordinator decides nothing until every shard has answered with the new term. It sends again, verbatim,
//         a Commit that some shard has published, so nothing is decided twice. docs/design/protocol.md has the rules.
//
// Life:   kCollecting (waits for a Hello of our term from every shard, and for enough workers) -> kResetting (begins a
//         generation from the newest snapshot or, with durable acknowledgements, from where the one before stopped) ->
//         kRunning -> kFinished, kStopped (on request, after a last snapshot) or kFailed. A restarted coordinator may
//         go from kCollecting to kRunning at once. If its log says that the job is done, it begins with kFinished,
//         unless the job file now has more steps.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/backoff.h"
#include "common/base/running_minimum.h"
#include "common/wire/actor.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/snapshot_id.h"
#include "common/wire/messages/step_parameters.h"
#include "monitoring/metrics.h"
#include "server/coordinator/barrier.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/equal_slots.h"
#include "server/coordinator/followers.h"
#include "server/coordinator/job.h"
#include "server/coordinator/job_status.h"
#include "server/coordinator/local_groups.h"
#include "server/coordinator/membership.h"
#include "server/coordinator/ranks.h"
#include "server/coordinator/roster.h"
#include "server/coordinator/waiting.h"
#include "server/storage/coordinator_log.h"
#include "update/verdict.h"

namespace capstan {
struct Beat;
struct Committed;
struct GroupMember;
struct Hello;
struct Join;
struct Leave;
struct PartSource;
struct PrepareReport;
struct Prepared;
struct Progress;
struct ResetBad;
struct ResetDone;
struct ShardAddress;
struct SnapshotDone;
struct SnapshotsKept;
struct View;
}  // namespace capstan

namespace capstan::server {

class Coordinator {
 public:
  using State = CoordinatorState;

  // Reads the log and appends the new term; `log` and `metrics` outlive the coordinator.
  Coordinator(CoordinatorOptions options, CoordinatorLog* log, std::shared_ptr<monitoring::CoordinatorMetrics> metrics,
              Instant now);
  ~Coordinator();

  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);
  // Ends the job's service: Tick asks the shards, again and again, to stop.
  void Shutdown();
  // Decides no further step. The state becomes kStopped once a last snapshot exists, or cannot be had in time.
  void RequestStop(Instant now);
  // Call once the final weights are written: workers are told to end, and a coordinator restarted on this log has
  // nothing left to do.
  void Conclude(Outbox* out);
  bool concluded() const { return job_.journal.concluded(); }
  // Whether the newest version needs no more waiting: it is on disk, cannot be written, or no snapshot is wanted.
  bool SnapshotsSettled() const { return job_.SnapshotsSettled(); }
  // Whether the last step is committed and the last snapshot is neither written nor given up.
  bool AwaitsLastSnapshot() const { return job_.AwaitsLastSnapshot(); }
  // The newest snapshot; generation 0 if there is none.
  SnapshotId newest_snapshot() const { return job_.journal.newest_snapshot(); }
  const std::vector<ManifestRecord>& manifests() const { return job_.journal.manifests(); }
  // Ends the job early; workers are told the reason.
  void Abandon(Status reason, Outbox* out) { Fail(std::move(reason), out); }
  // Reports that the worker of this name is dead: its slots move now instead of after its lease.
  void WorkerDied(const std::string& name, Instant now, Outbox* out);

  // Steps committed since the last call.
  std::vector<StepRecord> TakeRecords();
  State state() const { return job_.state.now(); }
  // Why the job failed; ok while it has not.
  const Status& failure() const { return job_.state.failure(); }
  Term term() const { return job_.journal.term(); }
  Generation generation() const { return job_.journal.generation(); }
  // The generation in which the present timeline began.
  Generation history() const { return job_.journal.timeline(); }
  Step step() const { return job_.steps->step(); }
  std::size_t worker_count() const { return job_.members.size(); }
  // Whether a worker still has to learn that the job is over. After a stop none has: workers wait for the
  // job to be resumed.
  bool AwaitsWorkers() const { return state() != State::kStopped && job_.members.size() > 0; }
  // Whether a worker still has to give version 0: until then nothing is decided, and nothing can be lost.
  bool AwaitsFirstWeights() const { return job_.journal.AwaitsInitialWeights(); }
  // Readers heard within a lease. After the last commit: heard since, or within a lease before it.
  std::size_t follower_count() const { return job_.followers.size(); }
  Instant lease() const { return job_.lease(); }
  // The job's tensors, once a worker has declared them.
  const Catalog* catalog() const { return job_.journal.catalog(); }
  // The workers now in the job.
  Roster roster() const;
  // Shards' addresses; empty until all are known.
  std::vector<ShardAddress> shards() const { return job_.shards.Addresses(); }
  // Whom the job waits for, such as "server 1 (never seen), worker-2 (computing step 7 for 12 s)"; empty: none.
  std::string WaitingFor(Instant now) const { return server::WaitingFor(job_, now); }
  // The state of the job as a JSON object for the status page.
  std::string StatusJson(Instant now) const { return server::StatusJson(job_, now); }
  // The view of a reader: no session, no slots.
  View ReaderView() const;

 private:
  void Append(LogRecord record);
  void Fail(Status reason, Outbox* out);

  void On(PeerId from, const Hello& hello, Instant now, Outbox* out);
  void On(PeerId from, const ResetDone& done, Instant now, Outbox* out);
  void On(PeerId from, const ResetBad& bad, Instant now, Outbox* out);
  void On(PeerId from, const SnapshotDone& done, Instant now, Outbox* out);
  void On(PeerId from, const Prepared& prepared, Instant now, Outbox* out);
  void On(PeerId from, const Committed& committed, Instant now, Outbox* out);
  void On(PeerId from, const Progress& progress, Instant now, Outbox* out);
  void On(PeerId from, const Join& join, Instant now, Outbox* out);
  void On(PeerId from, const Beat& beat, Instant now, Outbox* out);
  void On(const Leave& leave, Instant now, Outbox* out);

  std::string WhatALossCosts() const;
  bool Overrules(const Hello& hello, Outbox* out);
  Status CheckJoin(const Join& join) const;
  Status AdoptCatalog(const Join& join);
  void Advance(Instant now, Outbox* out);
  bool EnoughMembers(Instant now) const;
  void LeaveCollecting(Instant now, Outbox* out);
  bool ShardsLiveOn() const;
  void ResumeRunning(Instant now, Outbox* out);
  enum class Recovery { kGoOn, kGoBack, kRegroup };
  // kGoOn: with durable acknowledgements only lost shards go back; without them, or if that is impossible, as kGoBack.
  // kRegroup: the shards keep what they have, and the workers form another group.
  void StartRecovery(Recovery recovery, Instant now, Outbox* out);
  bool MustGoOn() const;
  void EndHistory(const std::string& reason, Instant now, Outbox* out);
  // Whether a push is acknowledged only once it is on disk.
  bool AcknowledgesDurably() const;
  void SayLost(const std::string& reason, Outbox* out) const;
  void FallBack(const std::string& reason, Instant now, Outbox* out);
  // Which shards have the parts of the snapshot that generation_ begins with; kUnreachable if a part is
  // missing everywhere.
  Result<std::vector<PartSource>> FindSources() const;
  void SendResets(Instant now, Outbox* out);
  void EnterRunning(Instant now, Outbox* out);
  void DecideSteps(Instant now, Outbox* out);
  void Finish(Outbox* out);
  void ChooseFounder();
  void KeepFounder(Instant now, Outbox* out);
  void FailFirstWeights(ShardIndex shard, const std::string& why, Outbox* out);
  void AdvanceSnapshots(Instant now, Outbox* out);
  void StopWhenKept(Instant now, Outbox* out);
  void CommitSnapshot(Instant now, Outbox* out);
  void NameEmptyShards(Outbox* out) const;
  void NameIdleWorkers(Outbox* out);
  std::string WhyIdle() const;
  void SayRecovered(Instant now, Outbox* out);
  void Reassign(Outbox* out);
  void DealSlots(Outbox* out);
  // Sends views to workers whose slots have changed; the others learn the rest with their next Beat.
  void SendNewSlots(Outbox* out);
  void AskForGroup(std::string reason, bool goes_back, Outbox* out);
  void FormGroupAnew(Instant now, Outbox* out);
  void HearOfGroup(const Worker& worker, Outbox* out);
  // Groups of the workers on one machine, which add up their gradients. They come and go independently of generations.
  void RenewLocalGroups(Instant now, Outbox* out);
  void LeaveOutLateMembers(Instant now, Outbox* out);
  void HearOfLocalGroup(const Worker& worker, Instant now, Outbox* out);
  void HelpSlowWorkers(Instant now, Outbox* out);
  std::string MissingInBarrier() const;
  void PassBarrierWhenComplete(Outbox* out);
  void SendView(Worker* worker, Outbox* out);
  bool IsOverFor(const Worker* worker) const;
  View MakeView(const Worker* worker) const;
  void SendViews(Outbox* out);
  // `life`: the incarnation of the shard that is meant; a later one at the same address ignores the message.
  void RefuseTo(PeerId to, Code code, std::string message, Outbox* out, Incarnation life = {}) const;
  void CheckDeadlines(Instant now, Outbox* out);

  Job job_;

  struct Setback {
    Instant since{};
    Step step;
  };
  std::optional<Setback> setback_;       // steps will be done again; set until the job runs again
  std::optional<Generation> overruled_;  // newest generation of shards ahead of the log, whose state is dropped
  Instant next_report_{}, next_ping_{};
  Backoff reset_backoff_;
};

}  // namespace capstan::server
