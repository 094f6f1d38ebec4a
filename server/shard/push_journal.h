// PushJournal: a shard's side of its log: pushes and ends of slots that are made durable before they are applied.
//
// Kind:   owned by the Shard, where acknowledgements are durable.
// Limits: those of LogQueue: log_bytes_max and log_records_max.
// Fails:  kBusy: the log is behind, or an append failed; the sender will send again. kInvalid: a snapshot does not say
//         where the log goes on.
// Why:    every update that was acknowledged can be restored from one snapshot and the timeline's log.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/backoff.h"
#include "common/wire/actor.h"
#include "common/wire/messages/snapshot_id.h"
#include "server/shard/log_queue.h"
#include "server/storage/push_log.h"

namespace capstan::server {

struct ShardContext;
struct SnapshotHeader;

class PushJournal {
 public:
  explicit PushJournal(const ShardContext& shard);

  // Returns the new requests to the log, in the order in which to carry them out.
  std::vector<LogWork> TakeWork() { return std::exchange(work_, {}); }
  // Whether the log of the timeline has been begun or replayed.
  bool is_ready() const { return ready_; }
  // The number of records that the served weights contain.
  std::uint64_t applied_records() const { return next_record_ - 1; }

  // Forgets all records and begins with the context's timeline. A timeline that begins with this generation gets an
  // empty log.
  void Reset(Instant now);
  // Requests the records that the loaded blocks lack. `headers`: the snapshot's headers, in the order of parts.
  Status BeginReplay(SnapshotId snapshot, const std::vector<SnapshotHeader>& headers);
  // Forgets who sent the records, because another generation continues the timeline. Workers will ask again.
  void ForgetSenders() { queue_.ForgetSenders(); }
  // Requests again to begin the log, if that failed.
  void Tick(Instant now);

  // The newest sequence number that waits here or is being appended: of the pushes of a slot to a block, or of the ends
  // of a slot.
  std::optional<SequenceNumber> NewestPush(BlockIndex block, SlotIndex slot) const {
    return queue_.NewestPush(block, slot);
  }
  std::optional<SequenceNumber> NewestEnd(SlotIndex slot) const { return queue_.NewestEnd(slot); }
  // Whether this push, or a newer one of its block and slot, waits here or is being appended.
  bool Has(SequenceNumber sequence, BlockIndex block, SlotIndex slot) const;
  void Add(PeerId from, PushLogRecord record, Outbox* out);
  // Appends what waits, unless an append is under way.
  void Append(Instant now);
  // Writes into the header of a snapshot of the served weights that the snapshot contains all records so far.
  void Mark(SnapshotHeader* header);
  // Drops the records that the newest of these snapshots contains.
  void TrimTo(const std::vector<SnapshotId>& retained);

  // Returns whether the journal became ready.
  bool Handle(const LogBegun& result, Outbox* out);
  // Returns the records to apply and acknowledge now, in order.
  LogQueue::Appended Handle(const LogAppended& result, Instant now, Outbox* out);
  void Handle(const LogTrimmed& result, Outbox* out) const;
  // Whether these records are the next to replay. The caller applies them and then calls Replayed(), which returns
  // whether the journal became ready.
  bool Expects(const LogRead& result) const;
  bool Replayed(const PushLog::Piece& piece, Outbox* out);

 private:
  LogTimeline OwnTimeline() const;
  void BeginLogOf(Instant now);
  void TakeFailedAppend(const Status& status, Outbox* out);

  const ShardContext& shard_;
  std::vector<LogWork> work_;
  LogQueue queue_;
  bool ready_ = false;
  std::uint64_t next_record_ = 1;                   // all records before it are applied
  std::map<SnapshotId, std::uint64_t> log_begins_;  // per snapshot: the first record that it lacks
  Instant append_since_{};
  bool begin_failed_ = false;  // beginning the log failed and is tried again
  Backoff backoff_;
};

}  // namespace capstan::server
