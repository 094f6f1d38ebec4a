// Steps: how the steps of a job advance, from the reports of its shards. One implementation for each family of modes.
//
// Kind:   owned by the Coordinator; part of a Job. mode_parts.h makes the one that the job file asks for.
// Why:    the modes differ in what a step is: prepared by all shards and then committed (sync, allreduce), or the
//         slowest slot's clock (async, bounded). The rest of the coordinator sees a step under way and its parameters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/wire/actor.h"
#include "common/wire/messages/step_parameters.h"
#include "server/coordinator/job_facts.h"
#include "server/storage/coordinator_log.h"
#include "update/verdict.h"

namespace capstan {
struct Committed;
struct Prepared;
struct Progress;
}  // namespace capstan

namespace capstan::server {

class Snapshots;

class Steps {
 public:
  explicit Steps(const JobFacts& facts) : facts_(facts) {}
  virtual ~Steps() = default;
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  // The step under way, and its parameters.
  Step step() const { return step_; }
  const StepParameters& parameters() const { return parameters_; }
  // The newest version that readers can get from the shards.
  virtual Step readable() const { return step_; }

  // ---- generations

  // Returns the step that the timeline of `record` has reached. That may be later than the record's snapshot: this
  // coordinator, or shards that still serve, may know of later steps.
  Step StepOfShards(const RecoverRecord& record) const;
  // Returns the parameters with which shards begin from the snapshot of `record`. `stopping`: the job is to stop.
  virtual StepParameters ParametersFrom(const RecoverRecord& record, const Snapshots& snapshots, bool stopping,
                                        Instant now) const;
  // Forgets the reports of a generation that has ended, because the next one was logged.
  virtual void EndGeneration() = 0;
  // Begins the steps of the journal's generation. Call once every shard has begun that generation.
  virtual void Begin() = 0;
  // Goes on with the steps of an earlier coordinator's generation, which every shard still holds.
  virtual void Resume(Instant now, Outbox* out) = 0;
  // Forgets the reports of a shard that was restarted.
  virtual void ForgetShard(ShardIndex shard) = 0;

  // ---- reports from shards of the running generation; each Take returns whether the report tells anything new

  virtual bool Take(const Prepared&, Instant, Outbox*) { return false; }
  virtual bool Take(const Committed&) { return false; }
  virtual bool Take(const Progress&) { return false; }

  // ---- decisions

  struct Decision {
    Status failure;
    std::vector<SlotIndex> suspects;       // slots that may have caused the failure
    std::vector<StepRecord> records;       // the steps that ended
    std::vector<const Prepared*> reports;  // the last step's reports; valid until the next report
    std::optional<Version> snapshot;       // the version that shards are told to write
    bool ended = false;                    // without global steps: the last step is on every shard
  };
  // Ends the step under way, or several steps, if the reports allow it. Announce tells the shards what was decided.
  virtual Decision Decide(const Snapshots& snapshots, bool stopping, Instant now, Outbox* out) = 0;
  virtual void Announce(Instant now, Outbox* out) = 0;
  // Repeats the decision to shards that have not answered.
  virtual void Repeat(Instant now, Outbox* out) = 0;
  // Adds the messages that the shard is to get with the regular Ping.
  virtual void AddToPing(PeerId, Outbox*) const {}

  // Whether every shard has published the version that the step under way begins with.
  virtual bool AllPublished() const = 0;
  // Whether shards can now take a snapshot that a Pin asks for, without a Commit.
  virtual bool TakesPins() const = 0;
  // Whether a snapshot that a Pin asks for is due.
  virtual bool IsPinDue(const Snapshots&, Instant) const { return false; }
  // Returns the generation that names the snapshots taken now, as on the shards (ShardContext::NameSnapshot). Reports
  // (SnapshotDone) of others are ignored.
  virtual Generation SnapshotsSince() const;
  // Returns the parameters of the step that begins with this snapshot.
  virtual StepParameters ParametersOfSnapshot(const ManifestRecord& manifest) const { return manifest.parameters; }
  // Whether two workers may compute the same slot. If so, the first push counts.
  virtual bool AllowsBackups() const { return false; }
  // Whether a push is acknowledged only once it is on disk.
  virtual bool AcknowledgesDurably() const { return false; }

 protected:
  const JobFacts facts_;
  Step step_;
  StepParameters parameters_;
};

}  // namespace capstan::server
