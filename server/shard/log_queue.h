// LogQueue: pushes and ends of slots between their arrival and their place in the shard's log: what gathers for the
// next append, and what is being appended.
//
// Kind:   owned by the Shard.
// Limits: `bytes_max` and `records_max` gathered; Full() says when one more is too many.
// Why:    one append is under way at a time and takes all that gathered during the one before: on a slow disk groups
//         become larger, not the wait longer.
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
    std::vector<PeerId> senders;  // by record; nobody (0) when it is of no use to tell
  };

  LogQueue(std::uint64_t bytes_max, std::size_t records_max) : bytes_max_(bytes_max), records_max_(records_max) {}

  // Whether there is no room for a record with this payload. One always finds room.
  bool Full(std::uint64_t payload_bytes) const;
  void Add(PeerId sender, PushLogRecord record);
  // The newest sequence number on its way to the log, for a block and slot, or for the ends of a slot.
  std::optional<std::uint64_t> NewestPush(BlockIndex block, SlotIndex slot) const { return Newest({block, slot}); }
  std::optional<std::uint64_t> NewestEnd(SlotIndex slot) const { return Newest({kEnds, slot}); }

  // All that has gathered; null when there is nothing, or when the append before it is not known to have ended.
  std::shared_ptr<const std::vector<PushLogRecord>> BeginAppend();
  bool appending() const { return appending_.records != nullptr; }
  // What BeginAppend gave out is durable.
  Appended FinishAppend();
  // All that is not known to be durable; who sent it, by record.
  std::vector<PeerId> Forget();
  // Whoever sent what is on its way will ask again.
  void ForgetSenders();
  std::uint64_t gathered_bytes() const { return bytes_; }

 private:
  using Key = std::pair<BlockIndex, SlotIndex>;
  static constexpr BlockIndex kEnds = UINT32_MAX;

  static std::pair<Key, std::uint64_t> NameOf(const PushLogRecord& record);
  std::optional<std::uint64_t> Newest(Key key) const;

  const std::uint64_t bytes_max_;
  const std::size_t records_max_;
  std::vector<PushLogRecord> records_;  // gathered
  std::vector<PeerId> senders_;
  std::uint64_t bytes_ = 0;
  Appended appending_;
  std::map<Key, std::uint64_t> newest_;  // of all that is on its way
};

}  // namespace capstan::server
