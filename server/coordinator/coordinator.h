// Coordinator: membership and slots, the verdict on every step, recovery of shards. Small messages only; it never
// touches a tensor.
//
// Kind:   owned by CoordinatorLoop's thread; a pure core.
// Limits: Membership::kWorkersMax workers; the shard count of the job file.
// Fails:  the job fails, with a message that says whom it waited for, after limits.join while gathering and
//         limits.stall without a committed step or, after the last one, without a part of the last snapshot. The
//         first recovery after a step has that time for itself, and so has what follows it; further ones have not.
// Why:    PROTOCOL.md 2 to 4. A new coordinator decides nothing until every shard has answered its own term; what some
//         shard has published is sent again verbatim, so nothing is decided twice.
//
// Life:   kCollecting (a Hello of our term from every shard, and enough workers) -> kResetting (a new generation,
//         from the newest snapshot or, where acknowledgements are durable, from where the one before was) ->
//         kRunning -> kFinished, kStopped (asked to, after a last snapshot) or kFailed. A restarted coordinator may go
//         from kCollecting to kRunning at once; one whose log says that the job is done begins with kFinished, unless
//         its job file has more steps than the one before.
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
#include "server/coordinator/local_groups.h"
#include "server/coordinator/membership.h"
#include "server/coordinator/ranks.h"
#include "server/coordinator/roster.h"
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
  // Asks for the end: shards are told to stop serving. Repeated by Tick.
  void Shutdown();
  // No step is decided any more; when a last snapshot exists, or cannot be had in time, the state is kStopped.
  void RequestStop(Instant now);
  // The final weights are written: workers are told to end, and a coordinator started again on this log has nothing left
  // to do.
  void Conclude(Outbox* out);
  bool concluded() const { return concluded_; }
  // Whether the newest version is kept on disk as far as the job asks for it, or cannot be.
  bool SnapshotsSettled() const;
  // Whether the last step is committed and the last snapshot neither exists nor is given up.
  bool AwaitsLastSnapshot() const;
  // The newest snapshot; none yet: generation 0.
  SnapshotId newest_snapshot() const { return manifests_.empty() ? SnapshotId{} : manifests_.back().id; }
  const std::vector<ManifestRecord>& manifests() const { return manifests_; }
  // Ends the job before its time; workers are told why.
  void Abandon(Status reason, Outbox* out) { Fail(std::move(reason), out); }
  // The worker behind this name is known to be dead: its slots move now instead of after its lease.
  void WorkerDied(const std::string& name, Instant now, Outbox* out);

  // Steps committed since the last call.
  std::vector<StepRecord> TakeRecords();
  State state() const { return state_; }
  // Why it failed; ok while it has not.
  const Status& failure() const { return failure_; }
  Term term() const { return term_; }
  Generation generation() const { return generation_; }
  // The generation in which the present history began.
  Generation history() const { return recover_ ? recover_->history : Generation{}; }
  Step step() const { return step_; }
  std::size_t worker_count() const { return members_.size(); }
  // Whether somebody is still to hear that the job is over. After a stop nobody is: workers wait for whoever resumes it.
  bool AwaitsWorkers() const { return state_ != State::kStopped && members_.size() > 0; }
  // Whether version 0 is yet to come from a worker: nothing is decided, and nothing can be lost.
  bool AwaitsFirstWeights() const;
  // Programs that only read, heard within a lease; once the last step is committed: within one before that, or since.
  std::size_t follower_count() const { return followers_.size(); }
  Instant lease() const;
  // The job's tensors, once a worker has declared them.
  const Catalog* catalog() const { return catalog_.get(); }
  // Who is in the job now.
  Roster roster() const;
  // Shards' addresses, once all are known.
  std::vector<ShardAddress> shards() const;
  // "server 1 (never seen), worker-2 (computing step 7 for 12 s)": whom the job waits for now; empty when nobody.
  std::string WaitingFor(Instant now) const;
  // How the job is, an object of JSON for the status page.
  std::string StatusJson(Instant now) const;
  // The view of somebody who only reads: no session, no slots.
  View ReaderView() const;

 private:
  struct ShardState;  // coordinator_shard.h

  // The number of steps by the job file in the log; 0: the log begins here.
  std::uint64_t Replay();
  std::uint64_t TakeJobRecord(const JobRecord& record);
  void Refuse(Status why);
  void RenewParameters();
  StepParameters Renewed(StepParameters parameters, Version version) const;
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

  // Whether `from` is the process whose Hello for this index was accepted.
  bool IsShard(PeerId from, ShardIndex shard) const;
  // Whether its sums are one for each segment of that shard, and those that the optimizer needs.
  bool Fits(const PrepareReport& report, ShardIndex shard) const;
  bool AcceptHello(ShardState* shard, PeerId from, const Hello& hello, Instant now, Outbox* out);
  void RefuseEarlierLife(const Hello& hello, Outbox* out) const;
  Status CheckHello(const Hello& hello) const;
  Status CheckHelloParts(const Hello& hello) const;
  std::string WhatALossCosts() const;
  std::string AheadOfUs(const Hello& hello) const;
  std::string NewestCommon(const Hello& hello) const;
  bool Overrules(const Hello& hello, Outbox* out);
  Status CheckJoin(const Join& join) const;
  Status AdoptCatalog(const Join& join);
  void InstallCatalog(const CatalogRecord& record);
  // Whether a manifest names this part: all others are of no use to a recovery.
  bool IsNamed(const SnapshotPart& part) const;
  void Remember(const SnapshotPart& part, ShardState* shard) const;
  void Advance(Instant now, Outbox* out);
  bool EnoughMembers(Instant now) const;
  void LeaveCollecting(Instant now, Outbox* out);
  bool ShardsLiveOn() const;
  void ResumeRunning(Instant now, Outbox* out);
  enum class Recovery { kGoOn, kGoBack, kRegroup };
  // kGoOn: where acknowledgements are durable, nothing goes back that is not lost; else, and when it cannot be,
  // kGoBack. kRegroup: the shards go on where they are, the workers form another group.
  void StartRecovery(Recovery recovery, Instant now, Outbox* out);
  bool MustGoOn() const;
  void EndHistory(const std::string& reason, Instant now, Outbox* out);
  // Whether workers learn of a push when it is on disk.
  bool AcknowledgesDurably() const;
  bool GoingOn() const { return recover_->history < generation_; }
  const char* ResettingText() const;
  void SayLost(const std::string& reason, Outbox* out) const;
  Step StepOfShards() const;
  void NoteProgress(Instant now);
  void FallBack(const std::string& reason, Instant now, Outbox* out);
  // Who has the parts of the snapshot that generation_ begins with; kUnreachable when nobody has one.
  Result<std::vector<PartSource>> FindSources() const;
  void SendResets(Instant now, Outbox* out);
  void EnterRunning(Instant now, Outbox* out);
  void DecideStep(Instant now, Outbox* out);
  std::string NameSuspects(const std::vector<SlotIndex>& slots) const;
  void SendPending(Instant now, Outbox* out);
  void MeasureStragglers(Instant now);
  void FinishWhenCommitted(Outbox* out);
  bool AllCommitted() const;
  void ChooseFounder();
  void KeepFounder(Instant now, Outbox* out);
  std::string WaitingForFirstWeights() const;
  void FailFirstWeights(ShardIndex shard, const std::string& why, Outbox* out);
  Generation SnapshotsSince() const;
  bool SnapshotStepReached(Step next) const;
  // `newest`: when the snapshot before it began.
  bool SnapshotDue(Step next, Instant newest, Instant now);
  void BeginSnapshot(SnapshotId id, Instant now);
  void AdvanceSnapshots(Instant now, Outbox* out);
  void StopWhenKept(Instant now, Outbox* out);
  void SendPins(Instant now, Outbox* out);
  void SayLongSnapshot(Instant now, Outbox* out);
  void CommitSnapshot(Instant now, Outbox* out);
  SnapshotsKept MakeSnapshotsKept() const;
  // Adds the shards that have not written their part of the last snapshot.
  void AddMissingParts(std::string* names) const;
  void NameEmptyShards(Outbox* out) const;
  void NameIdleWorkers(Outbox* out);
  std::string WhyIdle() const;
  void SayRecovered(Instant now, Outbox* out);
  // The newest snapshot that is kept or given up.
  SnapshotId Settled() const { return std::max(given_up_, newest_snapshot()); }
  void AdvanceClock(Instant now, Outbox* out);
  bool ReportsAreIn(Step step, const std::map<SlotIndex, SlotReport>& reports) const;
  void Reassign(Outbox* out);
  void DealSlots(Outbox* out);
  // To those whose slots are others than in their last view; the others learn the rest with their next Beat.
  void SendNewSlots(Outbox* out);
  // Where workers update: they are a group as long as a generation lasts.
  bool GroupChanges() const;
  void AskForGroup(std::string reason, Recovery recovery, Outbox* out);
  void FormGroupAnew(Instant now, Outbox* out);
  void BeginGroup();
  void HearOfGroup(const Worker& worker, Outbox* out);
  bool GroupOffered() const;
  std::string NotInGroup() const;
  std::vector<GroupMember> GroupOf(const Worker& worker) const;
  // Where workers of one machine add up their gradients: their groups, which come and go beside generations.
  void RenewLocalGroups(Instant now, Outbox* out);
  void LeaveOutLateMembers(Instant now, Outbox* out);
  void HearOfLocalGroup(const Worker& worker, Instant now, Outbox* out);
  // Whether the version that `step` makes is to be given to the shards.
  bool KeepDue(Step step, Instant newest_snapshot, Instant now);
  void BackUpSlowWorkers(Instant now, Outbox* out);
  bool IsSlow(const Worker& worker, Instant now, Instant limit) const;
  bool HasDoneStep(const Worker& worker) const;
  Worker* FindIdleWorker();
  void ForgetBackups();
  std::string MissingInBarrier() const;
  void PassBarrierWhenComplete(Outbox* out);
  Instant SlowAfter() const;
  void SendView(Worker* worker, Outbox* out);
  bool IsOverFor(const Worker* worker) const;
  View MakeView(const Worker* worker) const;
  void SendViews(Outbox* out);
  // `life`: the shard's that is meant; a later one at the same address is not.
  void RefuseTo(PeerId to, Code code, std::string message, Outbox* out, Incarnation life = {}) const;
  void ForgivePause(Instant now);
  std::string UnreachableFrom(const Worker& worker) const;
  void CheckDeadlines(Instant now, Outbox* out);
  // "waiting 5 s for server 1 (silent for 4 s); giving up after 600 s"; empty while that is not worth a word.
  std::string WaitingLine(Instant now) const;
  std::string AttemptsText() const;
  // Whether somebody is to be waited for at all, and how long at most; 0: for ever.
  bool MayWait() const;
  bool Gathering() const;
  double WaitLimit() const;
  double ArrivalSeconds() const;
  void Record(StepRecord record, Instant now);
  // Of step_ and attempt_ or a later one; empty: some shard has not reported it.
  std::vector<const Prepared*> AllPrepared();
  static bool HasPrepared(const ShardState& shard, Step step, std::uint32_t attempt);
  static Instant Seconds(double seconds);

  const CoordinatorOptions options_;
  CoordinatorLog* const log_;
  const std::shared_ptr<monitoring::CoordinatorMetrics> metrics_;
  const SlotIndex slot_count_;
  const std::uint64_t config_hash_;  // of options_.config

  // Durable: what the log says.
  JobId job_;
  Term term_;
  std::uint64_t sessions_ = 0;         // the highest id that was given
  std::uint64_t sessions_logged_ = 0;  // ids up to here belong to this life
  std::optional<CatalogRecord> catalog_record_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<SegmentOrder> order_;
  Generation generation_;
  std::optional<RecoverRecord> recover_;
  std::optional<RunningRecord> running_;   // of generation_
  std::vector<ManifestRecord> manifests_;  // of the snapshots that exist, oldest first
  bool concluded_ = false;

  // Volatile.
  State state_ = State::kCollecting;
  std::vector<ShardState> shards_;
  Membership members_;
  Ranks ranks_;
  Barrier barrier_;
  Followers followers_;
  struct Founder {
    SessionId session;
    std::string name;
  };
  std::optional<Founder> founder_;  // of generation_: whose first weights it begins with
  struct Setback {
    Instant since{};
    Step step;
  };
  std::optional<Setback> setback_;  // steps are to be done again; until the job runs
  EqualSlots equal_slots_;
  Step step_;                  // under way
  StepParameters parameters_;  // of step_
  std::uint32_t attempt_ = 0;
  // How many shards have reported this step, and this attempt of it or a later one.
  struct PreparedCount {
    Step step;
    std::uint32_t attempt = 0;
    std::size_t any = 0, all = 0;
  };
  PreparedCount& CountPrepared();
  std::optional<PreparedCount> prepared_count_;  // empty: to be counted again
  std::optional<Header> pending_;                // Commit or Redo, repeated until all have answered
  struct GroupWish {
    std::string reason;
    Recovery recovery = Recovery::kRegroup;
  };
  std::optional<GroupWish> regroup_;         // another group is to be formed, as soon as a step's Commit is everywhere
  Instant last_group_{};                     // when the present one was begun
  std::optional<LocalGroups> local_groups_;  // in jobs that have them
  Step held_;                                // where workers update: the newest version that the shards have
  std::vector<StepRecord> records_;
  std::map<std::uint64_t, std::map<SlotIndex, SlotReport>> async_reports_;  // by sequence number
  RunningMinimum clocks_;                                                   // async: of the shards' slowest slots
  struct PendingSnapshot;
  std::unique_ptr<PendingSnapshot> snapshot_;
  std::optional<Generation> overruled_;  // what shards ahead of the log have seen is left behind; their newest
  SnapshotId given_up_;                  // the newest that could not be written
  Instant last_snapshot_{};  // when the newest one began that exists, or was given up: what is lost on the way is due
  Instant snapshot_took_{};  // the newest one that exists
  bool last_snapshot_failed_ = false;
  bool stop_requested_ = false;
  Instant stop_since_{};
  Status failure_;
  bool shutting_down_ = false;
  std::uint64_t view_sequence_ = 1;
  Instant started_{}, last_progress_{}, last_commit_{}, next_report_{}, next_ping_{}, last_tick_{};
  struct Attempts {
    std::uint32_t recoveries = 0, groups = 0;  // generations begun
    bool has_time = true;                      // the newest one is the first of its kind
    std::string cause;                         // of the newest one, for people
  } attempts_;                                 // since a step was committed
  Instant first_prepared_{};                   // of step_
  std::vector<double> step_seconds_;           // of the newest steps, as a ring
  std::size_t next_step_second_ = 0;
  Backoff pending_backoff_, reset_backoff_, pin_backoff_;
};

}  // namespace capstan::server
