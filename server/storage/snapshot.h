// SnapshotImage, SnapshotHeader: what a shard keeps on disk of one version.
//
// Kind:   values; an image holds references to a version's buffers, which nobody writes any more.
// Why:    a block's bytes are believed only when they match the header's hash, and a header only when it matches the
//         digest in the coordinator's manifest: a part that is damaged, stale or of another job is noticed before use.
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
  ShardIndex part = 0;           // index of the shard that wrote it,
  std::uint32_t part_count = 0;  // of so many
  std::uint64_t catalog_hash = 0;
  std::uint32_t array_count = 0;  // of every block
  StepParameters parameters;      // of the step that begins there
  SlotIndex slot_count = 0;
  // Modes without global steps: per slot the newest sequence number that has ended here, and reports of those that the
  // coordinator had not counted yet.
  std::vector<std::uint64_t> ended;
  std::vector<StepReport> reports;
  std::uint64_t log_begin = 0;  // number of the first record of the shard's log that is not in it; 0: there is no log
  struct Block {
    BlockIndex block = 0;
    std::uint32_t count = 0;  // elements
    std::uint64_t updates = 0;
    std::vector<std::uint64_t> last;                      // per slot, newest sequence number applied; empty in sync
    std::array<std::uint64_t, kBlockArraysMax> hashes{};  // XXH3-64 of each array
  };
  std::vector<Block> blocks;  // in catalog order

  // XXH3-64 over everything above.
  std::uint64_t Digest() const;
  // Null when this part has no such block.
  const Block* Find(BlockIndex block) const;
};

struct SnapshotImage {
  SnapshotHeader header;                                   // without hashes
  std::vector<std::array<Slice, kBlockArraysMax>> arrays;  // by position in header.blocks
};

}  // namespace capstan::server
