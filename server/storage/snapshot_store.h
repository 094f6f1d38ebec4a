// SnapshotStore: a shard's directory: its life's numbers and its parts of snapshots. SnapshotReader: the parts alone.
//
// Kind:   opened by the process, then used by one thread (the shard's disk thread). Every call blocks.
// Fails:  kUnreachable: the disk is full or fails; kCorrupt: what is there is damaged; kInvalid: it is not there.
// Why:    the core decides what is kept, a thread carries it out, and the simulated cluster has disks that fail as
// told.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan {
struct SnapshotId;
struct SnapshotPart;
}  // namespace capstan

namespace capstan::server {

struct ShardLife;
struct SnapshotHeader;
struct SnapshotImage;

class SnapshotReader {
 public:
  virtual ~SnapshotReader() = default;

  // The parts that are here whole, this shard's own and those that shards of a larger number left in this run
  // directory. Their blocks have not been looked at.
  virtual std::vector<SnapshotPart> List() const = 0;
  virtual Result<SnapshotHeader> ReadHeader(SnapshotId id, ShardIndex part) const = 0;
  // Array `array` of a block: exactly out.size() bytes. The caller compares them with the header's hash.
  virtual Status ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                           std::span<std::byte> out) const = 0;
};

class SnapshotStore : public SnapshotReader {
 public:
  struct Written {
    std::uint64_t digest = 0;
    std::uint64_t bytes = 0;
  };

  // What was remembered last, by whatever process.
  virtual const ShardLife& life() const = 0;
  // Durable when it returns.
  virtual Status Remember(const ShardLife& life) = 0;

  // All or nothing, and durable when it returns. Lets go of each block when it is written, and gives up, leaving
  // nothing, when `cancelled` becomes true.
  virtual Result<Written> Write(SnapshotImage image, const std::atomic<bool>& cancelled) = 0;
  virtual Status Remove(SnapshotId id, ShardIndex part) = 0;
};

}  // namespace capstan::server
