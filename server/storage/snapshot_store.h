// SnapshotStore: a shard's directory: its ShardIdentity and its parts of snapshots. SnapshotReader: only the parts.
//
// Kind:   opened by the process, then used by one thread (the shard's disk thread). Every call blocks.
// Fails:  kBusy: the disk is full; kUnreachable: the disk fails; kCorrupt: damaged; kInvalid: not found.
// Why:    an interface, so that the simulated cluster can have disks that fail on request. The core decides what is
//         kept, and a thread carries it out.
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

struct ShardIdentity;
struct SnapshotHeader;
struct SnapshotImage;

using SharedHeader = std::shared_ptr<const SnapshotHeader>;

class SnapshotReader {
 public:
  virtual ~SnapshotReader() = default;

  // Lists the complete parts here, also those that other shards wrote. Their blocks have not been checked.
  virtual std::vector<SnapshotPart> List() const = 0;
  // The header has an entry for each block, and each request for a block reads it. So readers share one header.
  virtual Result<SharedHeader> ReadHeader(SnapshotId id, ShardIndex part) const = 0;
  // Reads array `array` of a block, exactly out.size() bytes. The caller checks the bytes against the header's hash.
  virtual Status ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                           std::span<std::byte> out) const = 0;
};

class SnapshotStore : public SnapshotReader {
 public:
  struct Written {
    std::uint64_t digest = 0;
    std::uint64_t bytes = 0;
  };

  // The identity that was stored last, perhaps by an earlier process.
  virtual const ShardIdentity& identity() const = 0;
  // Writes the identity to the directory, durably when it returns.
  virtual Status PersistIdentity(const ShardIdentity& identity) = 0;

  // Writes all or nothing, durably. Releases each block's buffers once they are written. Stops and leaves nothing when
  // `cancelled` becomes true.
  virtual Result<Written> Write(SnapshotImage image, const std::atomic<bool>& cancelled) = 0;
  virtual Status Remove(SnapshotId id, ShardIndex part) = 0;
};

}  // namespace capstan::server
