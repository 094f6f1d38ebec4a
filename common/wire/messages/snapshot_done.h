// SnapshotDone: what a shard reports of a snapshot that it was to take.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/types.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan {

// This shard's part of a snapshot is on disk, or cannot be. Repeated until a SnapshotsKept settles it.
struct SnapshotDone {
  ShardIndex shard = 0;
  Incarnation incarnation;
  Term term;              // echo of the newest term seen: said after whatever an older coordinator had it delete
  Generation generation;  // that the snapshot was taken in
  Version version;
  StepParameters parameters;  // of the step that begins there
  std::uint64_t digest = 0;
  std::uint64_t bytes = 0;
  std::string failure;  // not empty: why there is none
};

}  // namespace capstan
