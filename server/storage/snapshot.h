// SnapshotImage, SnapshotHeader: a shard's part of a snapshot, before and after it is written.
//
// Kind:   values; an image has references to a version's buffers, which stay unchanged while they are referenced.
// Why:    a block's bytes are used only if they match the hash in the header, and a header only if it matches the
//         digest in the coordinator's manifest. So a damaged, stale or foreign part is found before use.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/types.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/snapshot_id.h"
#include "common/wire/messages/step_parameters.h"
#include "server/storage/block_arrays.h"

namespace capstan::server {

struct SnapshotHeader {
  JobId job;
  SnapshotId id;
  ShardIndex part = 0;           // index of the shard that wrote the part
  std::uint32_t part_count = 0;  // number of shards that wrote the snapshot
  std::uint64_t catalog_hash = 0;
  std::uint32_t array_count = 0;  // arrays of every block
  StepParameters parameters;      // parameters of the step that begins with this version
  SlotIndex slot_count = 0;
  // For modes without global steps: per slot, the newest sequence number that has ended on this shard; and the reports
  // that the coordinator had not counted yet.
  std::vector<SequenceNumber> ended;
  std::vector<StepReport> reports;
  std::uint64_t log_begin = 0;  // first record of the shard's log that is not in the part; 0: there is no log
  struct BlockEntry {
    BlockIndex block = 0;
    std::uint32_t count = 0;  // elements
    std::uint64_t updates = 0;
    std::vector<SequenceNumber> last;                     // per slot: newest one applied; empty with global steps
    std::array<std::uint64_t, kBlockArraysMax> hashes{};  // XXH3-64 of each array
  };
  std::vector<BlockEntry> blocks;  // in catalog order

  // Computes the XXH3-64 of all fields that are written, except the flags of `parameters`.
  std::uint64_t Digest() const;
  // Returns the block's entry; null if this part does not have the block.
  const BlockEntry* Find(BlockIndex block) const;
};

struct SnapshotImage {
  SnapshotHeader header;                                   // without hashes, which are computed in writing
  std::vector<std::array<Slice, kBlockArraysMax>> arrays;  // by position in header.blocks
};

}  // namespace capstan::server
