// Messages of the coordinator to a shard; see also reset.h and commit.h.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/types.h"
#include "common/wire/messages/snapshot_id.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan {

struct Ping {  // raises term_seen; answered with Hello
  Term term;
  Generation generation;
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
