// Coordinator: membership and slots, the decision on every step, recovery of shards. It handles small messages only and
// never touches a tensor. This class passes messages to the parts of its Job, and then lets the JobCourse act.
//
// Kind:   owned by CoordinatorLoop's thread; a pure core.
// Limits: kWorkersMax workers (limits.h); the shard count of the job file.
// Fails:  the job fails, for example, if the log cannot be written, if a verdict stops the job, or if a wait is too
//         long (Overdue in waiting.h). The error of a wait names the missing processes.
// Why:    a new coordinator decides nothing until every shard has answered with the new term. If some shard has
//         published a step, the new coordinator sends that step's Commit again, so no step has two different commits.
//         docs/explanation/design/protocol.md has the rules.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/keys/principal.h"
#include "common/wire/actor.h"
#include "common/wire/messages/snapshot_id.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/job.h"
#include "server/coordinator/job_course.h"
#include "server/coordinator/job_status.h"
#include "server/coordinator/job_view.h"
#include "server/coordinator/roster.h"
#include "server/coordinator/teams.h"
#include "server/coordinator/waiting.h"

namespace capstan {
struct Heartbeat;
struct Committed;
struct Disagreement;
struct Hello;
struct Join;
struct Leave;
struct Prepared;
struct Progress;
struct ResetBad;
struct ResetDone;
struct SnapshotDone;
}  // namespace capstan

namespace capstan::server {

class Coordinator {
 public:
  using State = CoordinatorState;

  // Reads the log and appends the new term. `log` outlives the coordinator.
  Coordinator(CoordinatorOptions options, CoordinatorLog* log, std::shared_ptr<monitoring::CoordinatorMetrics> metrics,
              Instant now);

  void Handle(PeerId from, const Principal& sender, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);
  // Ends the job's service: from now on, Tick keeps sending the shards a Shutdown.
  void Shutdown();
  // Makes the coordinator decide no further step once the shards have the newest version. The state becomes kStopped
  // when the snapshot of that version exists, or cannot be had in time.
  void RequestStop(Instant now);
  // Logs that the job is done, and tells the workers to end. Call once the final weights are written.
  void Conclude(Outbox* out);
  bool concluded() const { return job_.journal.concluded(); }
  // Whether nothing is left to do for a snapshot of the newest version: it exists, cannot be taken, or is not wanted.
  bool SnapshotsSettled() const { return job_.SnapshotsSettled(); }
  // Whether every shard has the last version, and the job still waits for the snapshot of that version.
  bool AwaitsLastSnapshot() const { return job_.AwaitsLastSnapshot(); }
  // The newest snapshot; generation 0 if there is none.
  SnapshotId newest_snapshot() const { return job_.journal.newest_snapshot(); }
  const std::vector<ManifestRecord>& manifests() const { return job_.journal.manifests(); }
  // Fails the job; workers are told the reason.
  void Abandon(Status reason, Outbox* out) { course_.Fail(std::move(reason), out); }
  // Reports that the worker of this name is dead: it is removed now instead of after its lease.
  void WorkerDied(const std::string& name, Instant now, Outbox* out);

  // Returns the records of the steps committed since the last call.
  std::vector<StepRecord> TakeRecords() { return job_.records.Take(); }
  State state() const { return job_.state.now(); }
  // Why the job failed; ok while it has not.
  const Status& failure() const { return job_.state.failure(); }
  Term term() const { return job_.journal.term(); }
  Generation generation() const { return job_.journal.generation(); }
  // The generation in which the present timeline began.
  TimelineId timeline() const { return job_.journal.timeline(); }
  Step step() const { return job_.steps->step(); }
  std::size_t worker_count() const { return job_.members.size(); }
  // Whether members are left that must learn that the job is over. After a stop there are none: all workers wait for
  // the job to be resumed.
  bool AwaitsWorkers() const { return state() != State::kStopped && job_.members.size() > 0; }
  // Whether version 0, which a worker uploads, is not on disk yet. Until then no step is decided.
  bool AwaitsInitialWeights() const { return job_.journal.AwaitsInitialWeights(); }
  // The readers that sent a message within the last lease; in state kFinished also those that are silent since.
  const Followers& followers() const { return job_.followers; }
  Instant lease() const { return job_.lease(); }
  // The job's tensors, once a worker has declared them.
  const Catalog* catalog() const { return job_.journal.catalog(); }
  // Lists the job's members and their addresses.
  Roster roster() const;
  // Lists the shards' addresses; empty until all are known.
  std::vector<ShardAddress> shards() const { return job_.shards.Addresses(); }
  // Names the processes that the job waits for, such as: server 1 (never seen), "worker-2" (step 7, last heard 12 s
  // ago). Empty: none.
  std::string WaitingFor(Instant now) const { return server::WaitingFor(job_, now); }
  // The state of the job as a JSON object for the status page.
  std::string StatusJson(Instant now) const { return server::StatusJson(job_, now); }
  // Returns the job's view for a reader, which has no session and no slots.
  View ReaderView() const { return MakeView(job_, nullptr); }

 private:
  void On(PeerId from, const Principal& sender, const Hello& hello, Instant now, Outbox* out);
  void On(PeerId from, const ResetDone& done, Instant now, Outbox* out);
  void On(PeerId from, const ResetBad& bad, Instant now, Outbox* out);
  void On(PeerId from, const SnapshotDone& done, Instant now, Outbox* out);
  void On(PeerId from, const Prepared& prepared, Instant now, Outbox* out);
  void On(PeerId from, const Committed& committed, Instant now, Outbox* out);
  void On(PeerId from, const Progress& progress, Instant now, Outbox* out);
  void On(PeerId from, const Disagreement& disagreement, Instant now, Outbox* out);
  void On(PeerId from, const Principal& sender, const Join& join, Instant now, Outbox* out);
  void On(PeerId from, const Heartbeat& beat, Instant now, Outbox* out);
  void On(const Leave& leave, Instant now, Outbox* out);
  // Takes a message of a member of a team; returns whether it is one.
  bool HandleTeam(PeerId from, const Message& message, Instant now, Outbox* out);

  // `incarnation`: of the shard that is refused; another incarnation at the same address ignores the message. 0: any.
  void RefuseTo(PeerId to, Code code, std::string message, Outbox* out, Incarnation incarnation = {}) const;
  void CheckDeadlines(Instant now, Outbox* out);

  Job job_;
  JobCourse course_;
  Teams teams_;
  Instant next_report_{}, next_ping_{};
};

}  // namespace capstan::server
