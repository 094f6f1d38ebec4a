// Snapshots: the snapshot that shards are writing, and when the next one is due.
//
// Kind:   owned by the Coordinator; part of a Job.
// Limits: one at a time. A slow snapshot is logged after kLongSnapshot, and again each time its duration has doubled.
// Why:    a snapshot exists once every shard has its part on disk and the manifest is in the log. A shard repeats its
//         report until a RetainedSnapshots settles it, so a lost message costs time only.
#pragma once

#include <algorithm>
#include <map>
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
  // With every_seconds, a restarted coordinator takes a snapshot soon: the log does not say when the newest was taken.
  Snapshots(const JobFacts& facts, Instant now);

  bool pending() const { return pending_.has_value(); }
  // The version of the pending snapshot, and how long shards have been writing it. Requires pending().
  Version pending_version() const { return pending_->id.version; }
  Instant PendingFor(Instant now) const { return now - pending_->since; }
  // Returns how long the snapshot has existed; nothing if an earlier coordinator completed it.
  std::optional<Instant> AgeOf(SnapshotId id, Instant now) const;
  // When the newest snapshot that exists was begun, or when a later one was given up. every_seconds counts from here.
  Instant newest_began() const { return newest_began_; }
  // The duration of the newest snapshot that this coordinator completed; 0: none.
  Instant took() const { return took_; }
  // The newest snapshot that exists or was given up.
  SnapshotId Settled() const { return std::max(given_up_, facts_.journal.newest_snapshot()); }
  // Whether no snapshot of the version of `step` is to be waited for: one of this version or a later one exists or was
  // given up in generation `since` or later, the last try failed, or none can be taken.
  bool IsSettled(Generation since, Step step) const;
  // Whether the version of `next` becomes a snapshot: no other is pending, and a multiple of every_steps or the time is
  // reached. `existing`: the version of the snapshot that the generation's record names, which needs no other;
  // `newest_began`: when the newest snapshot began, including one that the caller begins now.
  bool IsDueAt(Step next, Version existing, Instant newest_began, Instant now) const;
  // As IsDueAt, in modes where several steps may pass at once: it is enough that a multiple of every_steps was passed
  // since the newest snapshot, or since one that this generation gave up.
  bool IsDueSince(Step clock, Version existing, Instant now) const;

  // Begins a snapshot that a Commit asks the shards for.
  void Begin(SnapshotId id, Instant now);
  // Begins a snapshot that the next Tick asks the shards for.
  void BeginAndAsk(SnapshotId id, Instant now);
  // Makes the next Tick ask the shards again.
  void AskAgain() { ask_backoff_.Restart(); }
  // Drops the pending snapshot: its generation has ended, so the parts that shards have written are of no use.
  void Abandon() { pending_.reset(); }
  // Forgets that the last try failed. Call at a stop and at the end, so that the last version is tried even if an
  // earlier one could not be written. The last version itself is not tried again: what was given up is settled.
  void Retry() { last_failed_ = false; }
  // Asks the shards whose part is missing, again and again because messages may be lost. Logs a snapshot that takes
  // long.
  void Tick(Instant now, Outbox* out);

  enum class Taken { kSettled, kOld, kFailed, kPart, kKnownPart };
  // kSettled: the snapshot exists or was given up, which the shard has not learned yet. kOld: a newer one is being
  // written. kFailed: the shard cannot write its part; call GiveUp. kKnownPart: the shard has repeated its report.
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
  std::map<SnapshotId, Instant> completed_;  // when; those that this coordinator completed and the log still has
  bool last_failed_ = false;
  Backoff ask_backoff_;
};

}  // namespace capstan::server
