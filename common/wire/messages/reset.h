// Reset: the coordinator tells a shard what to serve.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/data/catalog.h"
#include "common/wire/messages/snapshot_id.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan {

// A shard that has a part of a snapshot.
struct PartSource {
  std::uint64_t digest = 0;  // of the part
  std::string endpoint;      // of the shard
  bool operator==(const PartSource&) const = default;
};

// Serve in generation `generation`; bound to one incarnation. A history that begins with it: throw everything away and
// serve the version of `snapshot`, or version 0. An older one: go on where that history was; a shard that has lost it
// finds it in `snapshot` and its log.
struct Reset {
  Term term;
  Generation generation;
  Incarnation incarnation;
  JobId job;
  SnapshotId snapshot;        // none: version 0, whose weights follow from the seed
  StepParameters parameters;  // of the step that begins there
  SlotIndex slot_count = 0;
  std::vector<TensorSpec> catalog;
  using Source = PartSource;
  std::vector<Source> sources;  // one for each shard that wrote the snapshot
  Generation history;           // the generation in which it began
};

}  // namespace capstan
