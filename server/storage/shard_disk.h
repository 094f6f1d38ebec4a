// DiskWork, DiskResult, CarryOut: what a Shard asks of its disk, and what comes of it.
//
// Kind:   values and one function. The core makes work, a thread of the loop carries it out in order, and the core is
//         handed the result like a message.
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
#include "server/storage/shard_life.h"
#include "server/storage/snapshot.h"

namespace capstan::server {

class SnapshotStore;

struct RememberLife {
  ShardLife life;
};

struct WriteSnapshot {
  SnapshotImage image;
  std::shared_ptr<std::atomic<bool>> cancelled;
};

// Where the arrays of a block go.
struct LoadTarget {
  BlockIndex block = 0;
  std::uint32_t count = 0;  // elements
  std::array<BufferRef, kBlockArraysMax> arrays;
};

// Reads parts that are here: their headers, and the blocks of `targets` that they have.
struct LoadSnapshot {
  Generation generation;  // that will begin with it
  SnapshotId id;
  struct Part {
    ShardIndex part = 0;
    std::uint64_t digest = 0;
  };
  std::vector<Part> parts;
  std::vector<LoadTarget> targets;  // in catalog order
};

// A block of a snapshot's part; kFetchHeader: the part's header.
struct StoredBlock {
  SnapshotId snapshot;
  ShardIndex part = 0;
  BlockIndex block = 0;
};

// Another shard asks for it.
struct ReadForPeer {
  PeerId peer;
  StoredBlock wanted;
};

struct RemoveParts {
  std::vector<SnapshotPart> parts;
};

using DiskWork = std::variant<RememberLife, WriteSnapshot, LoadSnapshot, ReadForPeer, RemoveParts>;

struct LifeRemembered {
  ShardLife life;
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
  std::vector<SnapshotHeader> headers;  // one for each part asked for
};

struct PeerRead {
  PeerId peer;
  StoredBlock wanted;
  Status status;
  SnapshotHeader::Block entry;        // of the block
  std::vector<Slice> arrays;          // of the block; or the header, encoded, in pieces
  std::vector<std::uint64_t> hashes;  // of each
};

struct PartsRemoved {
  std::vector<SnapshotPart> parts;
  Status status;  // of the first that could not be removed
};

using DiskResult = std::variant<LifeRemembered, SnapshotWritten, SnapshotLoaded, PeerRead, PartsRemoved>;

DiskResult CarryOut(DiskWork work, SnapshotStore* store);

// A header as bytes, for disks and other shards. Parsing believes nothing: sizes are bounded and lists must fit
// together. What it would refuse is not written either: kInvalid.
Result<std::string> EncodeSnapshotHeader(const SnapshotHeader& header);
Result<SnapshotHeader> DecodeSnapshotHeader(std::string_view bytes);

// A Fetch of this block asks for the part's header, which comes in pieces of this size: frames are bounded, and headers
// of many slots are large.
inline constexpr BlockIndex kFetchHeader = UINT32_MAX;
// A block that no part has. The answer comes in its turn: what was asked for before and has not come by then is lost.
inline constexpr BlockIndex kFetchQuestion = kFetchHeader - 1;
inline constexpr std::size_t kHeaderPieceBytes = std::size_t{4} << 20;
inline constexpr std::size_t kPartHeaderBytesMax = std::size_t{256} << 20;

}  // namespace capstan::server
