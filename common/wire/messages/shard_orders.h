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

struct Ping {  // announces the coordinator's term; the shard answers with Hello
  Term term;
  Generation generation;
};

// Asks for a snapshot of the published version, as the flag `snapshot` of a Commit does. It serves modes without global
// steps, and times without commits.
struct Pin {
  Term term;
  Generation generation;
  Version version;  // sync: the published version; else the slowest slot's clock
};

// Lists the snapshots that exist, oldest first. A shard deletes other snapshots: those of older timelines, and those
// that are not newer than `settled`.
struct SnapshotsKept {
  Term term;
  Generation generation;
  std::vector<SnapshotId> kept;
  SnapshotId settled;  // this snapshot and older ones are decided: shards stop reporting them
};

struct Redo {  // prepares `step` again, as attempt `attempt`, from the kept sum
  Term term;
  Generation generation;
  Step step;
  std::uint32_t attempt = 0;
  float clip = 1.0F;
  std::vector<float> trust_ratios;  // one per tensor of the catalog; empty: all are 1
};

struct Rates {  // for modes without global steps: the parameters that follow from the job's clock, which is `step`
  Term term;
  Generation generation;
  Step step;
  StepParameters parameters;
};

struct Shutdown {  // the job is over: the shard stops serving and exits
  Term term;
  Generation generation;
};

}  // namespace capstan
