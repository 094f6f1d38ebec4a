// SnapshotDone: a shard's report of a snapshot that it was asked to take.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/types.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan {

// Reports that the shard's part of a snapshot is on disk, or that there is none. The shard repeats the report of its
// newest snapshot until a RetainedSnapshots settles the snapshot.
struct SnapshotDone {
  ShardIndex shard = 0;
  Incarnation incarnation;
  // The newest term that the shard has seen. So the part has survived every deletion that earlier coordinators ordered.
  Term term;
  Generation generation;  // the generation in which the snapshot was taken
  Version version;
  StepParameters parameters;  // parameters of the step that begins with the snapshot's version
  std::uint64_t digest = 0;
  std::uint64_t bytes = 0;
  std::string failure;  // if not empty: why there is no part
};

}  // namespace capstan
