// Messages of the coordinator to a shard.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/catalog.h"
#include "common/messages/snapshot_id.h"
#include "common/messages/step_parameters.h"
#include "common/types.h"

namespace capstan {

struct Ping {  // raises term_seen; answered with Hello
  Term term;
  Generation generation;
};

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

// Keep the version that is published now, as flag `snapshot` of a Commit does; for when no step moves, and for modes
// without global steps.
struct Pin {
  Term term;
  Generation generation;
  Version version;  // sync: the published one; else the slowest slot's clock
};

// The snapshots that exist, oldest first. Every other one that is of an older generation, or not newer than `settled`,
// is to be deleted.
struct SnapshotsKept {
  Term term;
  Generation generation;
  std::vector<SnapshotId> kept;
  SnapshotId settled;  // nothing more needs to be said of this one and of older ones
};

struct Redo {  // prepare `step` again, as attempt `attempt`, from the kept sum
  Term term;
  Generation generation;
  Step step;
  std::uint32_t attempt = 0;
  float clip = 1.0F;
  std::vector<float> trust_ratios;  // by tensor of the catalog; empty: all of them 1
};

struct Rates {  // modes without global steps: parameters from now on; `step` is the slowest slot's clock
  Term term;
  Generation generation;
  Step step;
  StepParameters parameters;
};

struct Shutdown {  // the job is over: stop serving and exit
  Term term;
  Generation generation;
};

}  // namespace capstan
