// LogQueue: pushes and ends of slots that are not in the shard's log yet: they wait for the next append, or are being
// appended.
//
// Kind:   owned by the Shard.
// Limits: at most `bytes_max` bytes and `records_max` records wait, or one larger record; the caller checks Full()
//         before Add(). As many can be in the append that is under way.
// Why:    one append runs at a time and takes all waiting records, so a slow disk gets fewer and larger appends.
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

  // Whether a record of `payload_bytes` must not be added now. If no record waits, a record of any size may be added.
  bool Full(std::uint64_t payload_bytes) const;
  void Add(PeerId sender, PushLogRecord record);
  // The newest sequence number in the queue, records being appended included: of a slot's pushes to a block, or of a
  // slot's ends.
  std::optional<SequenceNumber> NewestPush(BlockIndex block, SlotIndex slot) const { return Newest({block, slot}); }
  std::optional<SequenceNumber> NewestEnd(SlotIndex slot) const { return Newest({kEnds, slot}); }

  // Returns all waiting records for the next append; null if no record waits, or an append is under way.
  std::shared_ptr<const std::vector<PushLogRecord>> BeginAppend();
  bool appending() const { return appending_.records != nullptr; }
  // Ends an append: returns the records of BeginAppend, which are durable now, and their senders.
  Appended FinishAppend();
  // Drops all records, including those being appended. Returns their senders, one per record.
  std::vector<PeerId> Forget();
  // Forgets the senders of all records, so that no acknowledgement is sent for these. Workers will ask about them.
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
