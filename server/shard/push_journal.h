// PushJournal: a shard's part in its push log: has pushes and ends of slots logged on disk before they are applied.
//
// Kind:   owned by the Shard; exists only if acknowledgements are durable.
// Limits: those of LogQueue: log_bytes_max and log_records_max.
// Fails:  kBusy: the log is behind, or an append failed; the sender will send again. kInvalid: a snapshot does not say
//         which records it lacks.
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

  // Returns the requests to the log since the last call, in the order in which to execute them.
  std::vector<LogWork> TakeWork() { return std::exchange(work_, {}); }
  // Whether the log is ready for appends: the log of a new timeline was begun, that of an older one was replayed.
  bool is_ready() const { return ready_; }
  // How many records of this timeline are applied, including those that the log has dropped since.
  std::uint64_t applied_records() const { return next_record_ - 1; }

  // Forgets everything and begins with the context's timeline. Requests an empty log if the timeline begins with the
  // present generation.
  void Reset(Instant now);
  // Requests the records that the loaded blocks lack, if the timeline is older than the present generation. `headers`:
  // the snapshot's headers, by part.
  Status BeginReplay(SnapshotId snapshot, const std::vector<SnapshotHeader>& headers);
  // Forgets who sent the waiting records, because another generation continues the timeline. The records stay, and
  // workers will ask about them.
  void ForgetSenders() { queue_.ForgetSenders(); }
  // If an empty log could not be begun, requests it again after a while.
  void Tick(Instant now);

  // The newest sequence number that waits for the log or is being appended: of a slot's pushes to a block, or of a
  // slot's ends.
  std::optional<SequenceNumber> NewestPush(BlockIndex block, SlotIndex slot) const {
    return queue_.NewestPush(block, slot);
  }
  std::optional<SequenceNumber> NewestEnd(SlotIndex slot) const { return queue_.NewestEnd(slot); }
  // Whether this push, or a newer one of its block and slot, waits for the log or is being appended.
  bool Has(SequenceNumber sequence, BlockIndex block, SlotIndex slot) const;
  void Add(PeerId from, PushLogRecord record, Outbox* out);
  // Requests to append all waiting records, unless an append is under way.
  void Append(Instant now);
  // Notes in the header of a snapshot of the served weights the number of the first log record that the snapshot lacks.
  void Mark(SnapshotHeader* header);
  // Requests to drop the records that the newest of these snapshots contains, if Mark() marked that snapshot.
  void TrimTo(const std::vector<SnapshotId>& retained);

  // Returns whether the journal became ready.
  bool Handle(const LogBegun& result, Outbox* out);
  // Returns the records to apply and acknowledge now, in order; none if the append failed.
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
