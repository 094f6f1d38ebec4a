// DiskWork, DiskResult, Execute: requests of a Shard to its disk, and their results.
//
// Kind:   values and one function. The core makes requests, a thread of the loop carries them out in order, and the
//         core receives each result like a message.
// Why:    a core never waits for a disk; a shard answers while gigabytes are written or read.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/wire/messages/snapshot_id.h"
#include "common/wire/messages/step_parameters.h"
#include "server/storage/shard_identity.h"
#include "server/storage/snapshot.h"

namespace capstan::server {

class SnapshotStore;

struct PersistIdentity {
  ShardIdentity identity;
};

struct WriteSnapshot {
  SnapshotImage image;
  std::shared_ptr<std::atomic<bool>> cancelled;
};

// The buffers into which a block's arrays are read.
struct LoadTarget {
  BlockIndex block = 0;
  std::uint32_t count = 0;  // elements
  std::array<BufferRef, kBlockArraysMax> arrays;
};

// Reads parts on this shard's disk: their headers, and those blocks of `targets` that these parts have.
struct LoadSnapshot {
  Generation generation;  // the generation that will begin with the snapshot
  SnapshotId id;
  struct OwnPart {
    ShardIndex part = 0;
    std::uint64_t digest = 0;
  };
  std::vector<OwnPart> parts;
  std::vector<LoadTarget> targets;  // in catalog order
};

// A block of a snapshot's part or, if `block` is kFetchHeader, the part's header.
struct StoredBlock {
  SnapshotId snapshot;
  ShardIndex part = 0;
  BlockIndex block = 0;
};

// Reads a block for another shard.
struct ReadForPeer {
  PeerId peer;
  StoredBlock wanted;
};

struct RemoveParts {
  std::vector<SnapshotPart> parts;
};

using DiskWork = std::variant<PersistIdentity, WriteSnapshot, LoadSnapshot, ReadForPeer, RemoveParts>;

struct IdentityPersisted {
  ShardIdentity identity;
  Status status;
};

struct SnapshotWritten {
  SnapshotId id;
  StepParameters parameters;
  Status status;
  std::uint64_t digest = 0, bytes = 0;
};

struct SnapshotLoaded {
  Generation generation;
  Status status;
  std::vector<SnapshotHeader> headers;  // one for each requested part
};

struct PeerRead {
  PeerId peer;
  StoredBlock wanted;
  Status status;
  SnapshotHeader::BlockEntry entry;   // the block's entry in the header
  std::vector<Slice> arrays;          // the block's arrays, or pieces of the encoded header
  std::vector<std::uint64_t> hashes;  // hash of each of `arrays`
};

struct PartsRemoved {
  std::vector<SnapshotPart> parts;
  Status status;  // the first failure
};

using DiskResult = std::variant<IdentityPersisted, SnapshotWritten, SnapshotLoaded, PeerRead, PartsRemoved>;

DiskResult Execute(DiskWork work, SnapshotStore* store);

// Encode and decode a header as bytes, for disks and other shards. Decoding trusts nothing: sizes are bounded and lists
// must fit together. Encoding returns kInvalid for a header that decoding would refuse.
Result<std::string> EncodeSnapshotHeader(const SnapshotHeader& header);
Result<SnapshotHeader> DecodeSnapshotHeader(std::string_view bytes);

// A Fetch of this block number requests the part's header. It comes in pieces of kHeaderPieceBytes, because frames are
// bounded and headers of many slots are large.
inline constexpr BlockIndex kFetchHeader = UINT32_MAX;
// A Fetch of this block number, which no part has, is always refused. Answers keep their order: if the refusal arrives
// and a block that was requested before it has not, the request or the block was lost.
inline constexpr BlockIndex kFetchQuestion = kFetchHeader - 1;
inline constexpr std::size_t kHeaderPieceBytes = std::size_t{4} << 20;
inline constexpr std::size_t kPartHeaderBytesMax = std::size_t{256} << 20;

}  // namespace capstan::server
