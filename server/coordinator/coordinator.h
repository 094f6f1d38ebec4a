// Coordinator: membership and slots, the decision on every step, recovery of shards. It handles small messages only and
// never touches a tensor. This class routes messages to the parts of its Job, and reports of change to the JobCourse.
//
// Kind:   owned by CoordinatorLoop's thread; a pure core.
// Limits: Membership::kWorkersMax workers; the shard count of the job file.
// Fails:  the job fails if its processes have not gathered after limits.join, if no step is committed for limits.stall,
//         or if no shard finishes its part of the last snapshot for that time. The error names the missing processes.
//         The first recovery after a committed step restarts the clock of limits.stall; later ones do not.
// Why:    a new coordinator decides nothing until every shard has answered with the new term. It sends again, verbatim,
//         a Commit that some shard has published, so nothing is decided twice. docs/design/protocol.md has the rules.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/wire/actor.h"
#include "common/wire/messages/snapshot_id.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/job.h"
#include "server/coordinator/job_course.h"
#include "server/coordinator/job_status.h"
#include "server/coordinator/job_view.h"
#include "server/coordinator/roster.h"
#include "server/coordinator/waiting.h"

namespace capstan {
struct Heartbeat;
struct Committed;
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

  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);
  // Ends the job's service: from now on, Tick keeps asking the shards to stop.
  void Shutdown();
  // Makes the coordinator decide no further step. The state becomes kStopped once a last snapshot exists, or cannot be
  // had in time.
  void RequestStop(Instant now);
  // Call once the final weights are written: workers are told to end, and a coordinator restarted on this log has
  // nothing left to do.
  void Conclude(Outbox* out);
  bool concluded() const { return job_.journal.concluded(); }
  // Whether the newest version is settled: its snapshot is on disk, cannot be written, or is not wanted.
  bool SnapshotsSettled() const { return job_.SnapshotsSettled(); }
  // Whether the last step is committed and the last snapshot is neither written nor given up.
  bool AwaitsLastSnapshot() const { return job_.AwaitsLastSnapshot(); }
  // The newest snapshot; generation 0 if there is none.
  SnapshotId newest_snapshot() const { return job_.journal.newest_snapshot(); }
  const std::vector<ManifestRecord>& manifests() const { return job_.journal.manifests(); }
  // Ends the job early; workers are told the reason.
  void Abandon(Status reason, Outbox* out) { course_.Fail(std::move(reason), out); }
  // Reports that the worker of this name is dead: its slots move now instead of after its lease.
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
  // Whether a worker still has to learn that the job is over. After a stop no worker has to: all wait for the job to be
  // resumed.
  bool AwaitsWorkers() const { return state() != State::kStopped && job_.members.size() > 0; }
  // Whether a worker still has to give version 0: until then nothing is decided, and nothing can be lost.
  bool AwaitsInitialWeights() const { return job_.journal.AwaitsInitialWeights(); }
  // Counts the readers that were heard within the last lease. After the last commit, silence drops no reader.
  std::size_t follower_count() const { return job_.followers.size(); }
  Instant lease() const { return job_.lease(); }
  // The job's tensors, once a worker has declared them.
  const Catalog* catalog() const { return job_.journal.catalog(); }
  // Lists the job's members and their addresses.
  Roster roster() const;
  // Lists the shards' addresses; empty until all are known.
  std::vector<ShardAddress> shards() const { return job_.shards.Addresses(); }
  // Names the processes that the job waits for, such as server 1 (never seen), "worker-2" (step 7, last heard 12 s ago).
  // Empty: none.
  std::string WaitingFor(Instant now) const { return server::WaitingFor(job_, now); }
  // The state of the job as a JSON object for the status page.
  std::string StatusJson(Instant now) const { return server::StatusJson(job_, now); }
  // Returns the job's view for a reader, which has no session and no slots.
  View ReaderView() const { return MakeView(job_, nullptr); }

 private:
  void On(PeerId from, const Hello& hello, Instant now, Outbox* out);
  void On(PeerId from, const ResetDone& done, Instant now, Outbox* out);
  void On(PeerId from, const ResetBad& bad, Instant now, Outbox* out);
  void On(PeerId from, const SnapshotDone& done, Instant now, Outbox* out);
  void On(PeerId from, const Prepared& prepared, Instant now, Outbox* out);
  void On(PeerId from, const Committed& committed, Instant now, Outbox* out);
  void On(PeerId from, const Progress& progress, Instant now, Outbox* out);
  void On(PeerId from, const Join& join, Instant now, Outbox* out);
  void On(PeerId from, const Heartbeat& beat, Instant now, Outbox* out);
  void On(const Leave& leave, Instant now, Outbox* out);

  // `incarnation`: that of the shard that is meant; a later one at the same address ignores the message.
  void RefuseTo(PeerId to, Code code, std::string message, Outbox* out, Incarnation incarnation = {}) const;
  void CheckDeadlines(Instant now, Outbox* out);

  Job job_;
  JobCourse course_;
  Instant next_report_{}, next_ping_{};
};

}  // namespace capstan::server
