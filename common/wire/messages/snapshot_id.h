// SnapshotId, SnapshotPart: the names of a snapshot and of one shard's part of it.
//
// Kind:   values.
#pragma once

#include <compare>
#include <cstdint>

#include "common/base/types.h"

namespace capstan {

// A snapshot is named by the generation in which it was taken and its version; generation 0 is none.
struct SnapshotId {
  Generation generation;
  Version version;
  auto operator<=>(const SnapshotId&) const = default;
  bool IsNone() const { return generation.value == 0; }
};

// One shard's part of a snapshot, complete and verified, in some process's directory.
struct SnapshotPart {
  SnapshotId id;
  ShardIndex part = 0;  // the index of the shard that wrote it
  std::uint64_t digest = 0;
  bool operator==(const SnapshotPart&) const = default;
};

}  // namespace capstan
