// Snapshots: the snapshot that shards are writing, and when the next one is due.
//
// Kind:   owned by the Coordinator; part of a Job.
// Limits: one at a time. A hanging disk is logged, first after kLongSnapshot, then each time at twice the time.
// Why:    a snapshot exists once every shard has its part on disk and the manifest is in the log. A shard repeats its
//         report until a RetainedSnapshots settles it, so a lost message costs time only.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "common/base/backoff.h"
#include "common/wire/actor.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/snapshot_id.h"
#include "server/coordinator/job_facts.h"
#include "server/coordinator/journal.h"

namespace capstan::server {

class Snapshots {
 public:
  // A restarted coordinator has a snapshot taken soon: the log does not record when the newest one was taken.
  Snapshots(const JobFacts& facts, Instant now);

  bool pending() const { return pending_.has_value(); }
  // When the newest snapshot that exists or was given up began.
  Instant newest_began() const { return newest_began_; }
  // The duration of the newest snapshot that exists.
  Instant took() const { return took_; }
  // The newest snapshot that exists or was given up.
  SnapshotId Settled() const { return std::max(given_up_, facts_.journal.newest_snapshot()); }
  // Whether the version of `step` is settled: a generation from `since` on has written its snapshot, it could not be
  // written, or the job takes no snapshots.
  bool IsSettled(Generation since, Step step) const;
  // Whether the version of `next` becomes a snapshot, because a multiple of every_steps or the time is reached.
  // `existing`: the version that the generation began from; `newest_began`: when the newest snapshot begins.
  bool IsDueAt(Step next, Version existing, Instant newest_began, Instant now) const;
  // Whether the version of `clock` becomes a snapshot in modes where several steps may pass at once: because a multiple
  // of every_steps was passed since the newest snapshot, or the time is reached.
  bool IsDueSince(Step clock, Version existing, Instant now) const;

  // Begins a snapshot that a Commit asks the shards for.
  void Begin(SnapshotId id, Instant now);
  // Begins a snapshot that the next Tick asks the shards for.
  void BeginAndAsk(SnapshotId id, Instant now);
  // Makes the next Tick ask the shards again.
  void AskAgain() { ask_backoff_.Restart(); }
  // Drops the pending snapshot: its generation has ended, so the parts that shards have written are of no use.
  void Abandon() { pending_.reset(); }
  // Allows another try for the last version, even if it could not be written before.
  void Retry() { last_failed_ = false; }
  // Asks the shards whose part is missing, again and again because messages may be lost. Logs a snapshot that takes
  // long.
  void Tick(Instant now, Outbox* out);

  enum class Taken { kSettled, kOld, kFailed, kPart, kKnownPart };
  // kSettled: the snapshot exists or was given up, which the shard does not know yet. kOld: a newer one is being
  // written. kFailed: the shard cannot write its part; call GiveUp.
  Taken Take(const SnapshotDone& done, Instant now);
  void GiveUp(Step newest, Instant now);
  bool HasPart(ShardIndex shard) const { return pending_ && pending_->parts[shard].has_value(); }
  bool IsComplete() const;
  // Returns the record with which the snapshot exists, once the record is in the log. Requires IsComplete().
  ManifestRecord Complete(Instant now);

  // Names the shards whose part is missing.
  std::string MissingParts() const;
  RetainedSnapshots MakeRetainedSnapshots() const;

 private:
  struct Pending {
    SnapshotId id;
    std::vector<std::optional<SnapshotDone>> parts;  // by shard
    Instant since{};
    Instant next_line{};  // when the next log line about it is due
  };

  bool IsDueByTime(Instant newest_began, Instant now) const;
  void Ask(Instant now, Outbox* out);
  void LogIfLong(Instant now, Outbox* out);

  const JobFacts facts_;
  std::optional<Pending> pending_;
  SnapshotId given_up_;  // the newest one that could not be written
  Instant newest_began_{};
  Instant took_{};
  bool last_failed_ = false;
  Backoff ask_backoff_;
};

}  // namespace capstan::server
