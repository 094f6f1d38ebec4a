// Fetched: a shard's answer to another shard's Fetch.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/wire/messages/snapshot_id.h"

namespace capstan {

// The payload is one array of the block (its weights or one of the optimizer's states), or one piece of the part's
// header.
struct Fetched {
  SnapshotId snapshot;
  ShardIndex part = 0;
  BlockIndex block = 0;
  std::uint32_t array = 0;  // 0: weights; then states
  std::uint64_t updates = 0;
  std::vector<SequenceNumber> last;  // per slot, newest sequence number applied
  std::uint64_t payload_hash = 0;
  std::string failure;       // if not empty: why there is no payload
  std::uint32_t arrays = 0;  // number of arrays of the block, or of pieces of the header
};

}  // namespace capstan
