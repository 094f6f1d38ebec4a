// LogQueue: pushes and ends of slots that are not in the shard's log yet. They wait for the next append, or
// are being appended.
//
// Kind:   owned by the Shard.
// Limits: at most `bytes_max` bytes and `records_max` records wait; the caller checks Full() before Add().
// Why:    one append runs at a time and takes all records that arrived during the previous one. So on a slow disk more
//         records go into one append, and the wait does not grow.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/types.h"
#include "server/storage/push_log.h"

namespace capstan::server {

class LogQueue {
 public:
  struct Appended {
    std::shared_ptr<const std::vector<PushLogRecord>> records;
    std::vector<PeerId> senders;  // one per record; 0 if its sender needs no acknowledgement
  };

  LogQueue(std::uint64_t bytes_max, std::size_t records_max) : bytes_max_(bytes_max), records_max_(records_max) {}

  // Whether the queue has no room for a record with this payload. An empty queue has room for any record.
  bool Full(std::uint64_t payload_bytes) const;
  void Add(PeerId sender, PushLogRecord record);
  // The newest sequence number in the queue: of the pushes of a slot to a block, or of the ends of a slot.
  std::optional<SequenceNumber> NewestPush(BlockIndex block, SlotIndex slot) const { return Newest({block, slot}); }
  std::optional<SequenceNumber> NewestEnd(SlotIndex slot) const { return Newest({kEnds, slot}); }

  // Returns all waiting records, to be appended now. Null if there are none, or if the previous append has not ended.
  std::shared_ptr<const std::vector<PushLogRecord>> BeginAppend();
  bool appending() const { return appending_.records != nullptr; }
  // Ends an append: returns the records of BeginAppend, which are durable now, and their senders.
  Appended FinishAppend();
  // Drops all records, including those being appended. Returns their senders, one per record.
  std::vector<PeerId> Forget();
  // Forgets the senders of all records; they will ask again.
  void ForgetSenders();
  std::uint64_t gathered_bytes() const { return bytes_; }

 private:
  using Key = std::pair<BlockIndex, SlotIndex>;
  static constexpr BlockIndex kEnds = UINT32_MAX;

  static std::pair<Key, SequenceNumber> NameOf(const PushLogRecord& record);
  std::optional<SequenceNumber> Newest(Key key) const;

  const std::uint64_t bytes_max_;
  const std::size_t records_max_;
  std::vector<PushLogRecord> records_;  // records that wait for the next append
  std::vector<PeerId> senders_;
  std::uint64_t bytes_ = 0;
  Appended appending_;
  std::map<Key, SequenceNumber> newest_;  // newest sequence numbers in the queue
};

}  // namespace capstan::server
