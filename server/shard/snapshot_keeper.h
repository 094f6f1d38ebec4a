// SnapshotKeeper: has a shard's parts of snapshots written and deleted, and sends their blocks to other shards.
//
// Kind:   owned by the Shard.
// Limits: one snapshot is written at a time. At most kPeerReadsMax reads for other shards are under way.
// Fails:  a version that cannot be written is reported to the coordinator with the reason. A list of snapshots that
//         cannot be right is refused; see Check.
// Why:    a snapshot pins its version by reference, so training goes on while it is written. The newest part of a
//         snapshot that this shard was ever told is complete stays on disk, whatever a later list says.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/backoff.h"
#include "common/wire/actor.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/snapshot_id.h"
#include "server/storage/shard_disk.h"

namespace capstan {
struct Fetch;
struct RetainedSnapshots;
}  // namespace capstan

namespace capstan::server {

struct ShardContext;

class SnapshotKeeper {
 public:
  static constexpr std::size_t kPeerReadsMax = 256;

  explicit SnapshotKeeper(const ShardContext& shard);

  // The parts on this shard's disk.
  const std::vector<SnapshotPart>& parts() const { return parts_; }
  bool is_writing() const { return writing_.has_value(); }
  // Whether a snapshot with the content of `id` is being written, or is the one whose result was last reported.
  bool HasBegun(SnapshotId id) const;

  // Takes the coordinator's request for this snapshot. Returns true if the snapshot must be written now: then call
  // Write(). Otherwise it is being written, or its result (or why it is impossible) was reported.
  bool Pin(SnapshotId id, Instant now, Outbox* out);
  // Makes the part from the served blocks. The caller then has the step engine and the journal add to the header.
  SnapshotImage MakeImage(SnapshotId id, JobId job) const;
  void Write(SnapshotImage image, std::vector<DiskWork>* work);
  // Gives up the snapshot that is being written, and forgets the result that was last reported.
  void Abandon();

  // Fails if the list cannot be right: it has no snapshot although there was one, or one of a version that this shard
  // has not had. `newest_retained`: the newest one here that an earlier list had.
  Status Check(const RetainedSnapshots& list, SnapshotId newest_retained) const;
  // Whether this shard has a part of the snapshot.
  bool Has(SnapshotId id) const;
  // Stops to report a result that the coordinator has decided about. Forgets a snapshot that was given up.
  void Settle(const RetainedSnapshots& list);
  // Deletes old parts. Keeps those that the coordinator retains or has not decided about, and the newest one that this
  // shard can go back to. Requires that Check() returned ok.
  void Handle(const RetainedSnapshots& list, SnapshotId newest_retained, std::vector<DiskWork>* work);
  void Handle(PeerId from, const Fetch& fetch, std::vector<DiskWork>* work, Outbox* out);
  // Reports the result to the coordinator and returns true; returns false if the snapshot was given up meanwhile.
  bool Handle(SnapshotWritten result, Instant now, Outbox* out);
  void Handle(PeerRead result, Outbox* out);
  void Handle(const PartsRemoved& result, Outbox* out) const;
  // Repeats the last result until a RetainedSnapshots says that the coordinator has decided about it.
  void Tick(Instant now, Outbox* out);

 private:
  struct Writing {
    SnapshotId id;
    std::shared_ptr<std::atomic<bool>> cancelled;
  };

  // Whether `begun` has the same content as `asked`: the same version of the served timeline.
  bool IsSame(SnapshotId begun, SnapshotId asked) const;
  SnapshotDone Failed(SnapshotId id, std::string why) const;
  void Finish(SnapshotDone done, Instant now, Outbox* out);
  void SendDone(Instant now, Outbox* out);
  SnapshotId NewestHere(SnapshotId newest_retained) const;

  const ShardContext& shard_;
  std::vector<SnapshotPart> parts_;
  std::optional<Writing> writing_;
  std::optional<SnapshotDone> done_;  // the last result; empty: none in this timeline
  bool settled_ = false;              // the coordinator knows the result in done_
  Backoff backoff_;
  std::size_t peer_reads_ = 0;  // reads for other shards that are under way
};

}  // namespace capstan::server
