// SnapshotKeeper: has a shard's parts of snapshots written and deleted, and sends their blocks to other shards.
//
// Kind:   owned by the Shard.
// Limits: one snapshot is written at a time. kPeerReadsMax reads for other shards are under way.
// Fails:  a version that cannot be written is reported to the coordinator with the reason.
// Why:    a snapshot pins its version by reference, so training goes on while it is written.
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
  // Whether a snapshot with the content of `id` is being written, or was the last one written.
  bool HasBegun(SnapshotId id) const;

  // Answers the coordinator's request for this snapshot if it is written, being written or impossible. Returns true if
  // it must be written now; then call Write().
  bool Pin(SnapshotId id, Instant now, Outbox* out);
  // Makes the part from the served blocks. A step engine and a journal have yet to add to its header.
  SnapshotImage MakeImage(SnapshotId id, JobId job) const;
  void Write(SnapshotImage image, std::vector<DiskWork>* work);
  // Gives up the snapshot that is being written, and forgets the result of the last one.
  void Abandon();

  // Deletes old parts. Keeps those that the coordinator retains and the newest one that this shard may go back to.
  void Handle(const RetainedSnapshots& retained, SnapshotId newest_retained, std::vector<DiskWork>* work);
  void Handle(PeerId from, const Fetch& fetch, std::vector<DiskWork>* work, Outbox* out);
  // Reports the result to the coordinator and returns true, unless the snapshot was given up meanwhile.
  bool Handle(SnapshotWritten result, Instant now, Outbox* out);
  void Handle(PeerRead result, Outbox* out);
  void Handle(const PartsRemoved& result, Outbox* out) const;
  // Repeats the result that the coordinator does not know yet.
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
  std::optional<SnapshotDone> done_;  // the report on the newest snapshot of this timeline
  bool settled_ = false;              // the coordinator knows the result in done_
  Backoff backoff_;
  std::size_t peer_reads_ = 0;  // reads for other shards that are under way
};

}  // namespace capstan::server
