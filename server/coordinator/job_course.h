// JobCourse: changes the state of a job: the job gathers its members, begins generations, decides steps, and ends.
//
// Kind:   part of the Coordinator; it changes the parts of a Job, and no part calls it. job_state.h has the table of
//         all changes of the state.
// Why:    a new coordinator decides nothing until every shard has answered with the new term. A generation begins from
//         the newest snapshot or, with durable acknowledgements or another group of workers, from where the one before
//         stopped. One worker at a time is the source of initial weights: they are on disk before anything is computed
//         from them. If that worker is lost earlier, the generation ends, so that weights of two workers never mix.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/backoff.h"
#include "common/wire/actor.h"
#include "common/wire/messages/reset.h"
#include "server/coordinator/job.h"

namespace capstan {
struct Join;
}  // namespace capstan

namespace capstan::server {

class JobCourse {
 public:
  explicit JobCourse(Job* job) : job_(job) {}

  // Moves the job on as far as the reports allow.
  void Advance(Instant now, Outbox* out);
  void DecideSteps(Instant now, Outbox* out);
  void LoseShard(ShardIndex shard, Instant now, Outbox* out);
  // Goes back to the newest snapshot, because the step under way may have gradients that do not count.
  void GiveUpStep(Instant now, Outbox* out);
  // Goes back to an older start, or fails the job, because the newest generation cannot begin as its record says.
  void FallBack(const std::string& reason, Instant now, Outbox* out);
  // Deals the slots again after a change of members. If a job of mode allreduce runs, asks for another group instead,
  // if the slots would change.
  void Reassign(Outbox* out);
  // Takes the state of the group from a worker's last Heartbeat.
  void NoteGroup(const Worker& worker, Outbox* out);
  // Logs the manifest of a snapshot of which every shard has written its part.
  void CommitSnapshot(Instant now, Outbox* out);
  void FailInitialWeights(ShardIndex shard, const std::string& why, Outbox* out);
  // Returns whether a shard that has seen more than the log is to be rolled back, which the operator must have
  // accepted.
  bool Overrules(const Hello& hello, Outbox* out);
  // Takes the job's tensors, which the first worker declares.
  Status AdoptCatalog(const Join& join);
  void Append(LogRecord record);
  void Fail(Status reason, Outbox* out);

 private:
  // kGoBack: all shards go back to the newest snapshot. kGoOn: with durable acknowledgements, lost shards load the
  // snapshot and their logs, and the others keep what they have; without durable acknowledgements the same as kGoBack.
  // kRegroup: the shards keep what they have, and the workers form another group.
  enum class Recovery { kGoOn, kGoBack, kRegroup };
  struct Setback {
    Instant since{};
    Step step;
  };

  bool EnoughMembers(Instant now) const;
  void LeaveCollecting(Instant now, Outbox* out);
  bool ShardsLiveOn() const;
  void ResumeRunning(Instant now, Outbox* out);
  void Finish(Outbox* out);
  bool MustGoOn() const;
  void EndTimeline(const std::string& reason, Instant now, Outbox* out);
  void LogLost(const std::string& reason, Outbox* out) const;
  void StartRecovery(Recovery recovery, Instant now, Outbox* out);
  Result<std::vector<PartSource>> FindSources() const;
  void SendResets(Instant now, Outbox* out);
  void EnterRunning(Instant now, Outbox* out);
  void LogRecovered(Instant now, Outbox* out);
  void ChooseInitialSource();
  void KeepInitialSource(Instant now, Outbox* out);
  void AskForGroup(std::string reason, bool goes_back, Outbox* out);
  void FormGroup(Instant now, Outbox* out);
  void KeepVersion(Instant now, Outbox* out);
  void AdvanceSnapshots(Instant now, Outbox* out);
  void StopWhenSaved(Instant now, Outbox* out);

  Job* const job_;
  std::optional<Setback> setback_;  // how far the job was when a recovery began; empty once the job runs again
  std::optional<Generation>
      newer_on_shards_;  // the newest generation on shards beyond the log; set if these are rolled back
  Backoff reset_backoff_;
  struct {
    Generation generation;
    std::uint64_t key = 0;
  } fetch_;  // the secret with which shards of this generation fetch parts of snapshots from each other
};

}  // namespace capstan::server
