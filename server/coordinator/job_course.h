// JobCourse: the course of a job, as changes of its state: it gathers, begins generations, decides steps, and ends.
//
// Kind:   part of the Coordinator; it changes the parts of a Job, and no part calls it. job_state.h has the table of
//         all changes of the state.
// Why:    a new coordinator decides nothing until every shard has answered with the new term. A generation begins from
//         the newest snapshot or, with durable acknowledgements or another group of workers, from where the one before
//         stopped. One worker at a time is the source of initial weights: they are on disk before anything is computed
//         from them, and if it is lost earlier its generation ends, so that the weights of two workers never mix.
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

  // Goes as far as the reports allow it.
  void Advance(Instant now, Outbox* out);
  void DecideSteps(Instant now, Outbox* out);
  void LoseShard(ShardIndex shard, Instant now, Outbox* out);
  // The snapshot that the newest generation begins with is unusable.
  void FallBack(const std::string& reason, Instant now, Outbox* out);
  // The members have changed.
  void Reassign(Outbox* out);
  // Takes the state of the group from a worker's last Beat.
  void NoteGroup(const Worker& worker, Outbox* out);
  // Every shard has its part.
  void CommitSnapshot(Instant now, Outbox* out);
  void FailInitialWeights(ShardIndex shard, const std::string& why, Outbox* out);
  // Whether a shard that has seen more than the log is taken back, as the operator has accepted.
  bool Overrules(const Hello& hello, Outbox* out);
  // The first worker declares the job's tensors.
  Status AdoptCatalog(const Join& join);
  void Append(LogRecord record);
  void Fail(Status reason, Outbox* out);

 private:
  // kGoOn: with durable acknowledgements only lost shards go back; without them, or if that is impossible, as kGoBack.
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
  void SayLost(const std::string& reason, Outbox* out) const;
  void StartRecovery(Recovery recovery, Instant now, Outbox* out);
  Result<std::vector<PartSource>> FindSources() const;
  void SendResets(Instant now, Outbox* out);
  void EnterRunning(Instant now, Outbox* out);
  void SayRecovered(Instant now, Outbox* out);
  void ChooseInitialSource();
  void KeepInitialSource(Instant now, Outbox* out);
  void AskForGroup(std::string reason, bool goes_back, Outbox* out);
  void FormGroup(Instant now, Outbox* out);
  void AdvanceSnapshots(Instant now, Outbox* out);
  void StopWhenKept(Instant now, Outbox* out);

  Job* const job_;
  std::optional<Setback> setback_;       // steps will be done again; set until the job runs again
  std::optional<Generation> overruled_;  // newest generation of shards beyond the log, whose state is dropped
  Backoff reset_backoff_;
};

}  // namespace capstan::server
