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

// Asks for a snapshot of the published version, as the flag `snapshot` of a Commit does. It is sent in modes without
// global steps, when no commit is due, and again while a shard's report is missing.
struct Pin {
  Term term;
  Generation generation;
  Version version;  // sync: the published version; else the slowest slot's clock
};

// Lists the snapshots that exist, oldest first. A shard deletes its parts of all others, except those of its timeline
// that are newer than `settled`, and the newest one of a snapshot that was retained before.
struct RetainedSnapshots {
  Term term;
  Generation generation;
  std::vector<SnapshotId> ids;
  SnapshotId settled;  // this snapshot and older ones are decided: shards stop reporting them
};

struct Redo {  // prepares `step` again, as attempt `attempt`, from the kept sum
  Term term;
  Generation generation;
  Step step;
  std::uint32_t attempt = 0;
  float clip = 1.0F;
  std::vector<float> trust_ratios;  // one per tensor of the catalog; empty: all are 1
  float clip_value = 0.0F;          // limit of each element's magnitude; 0: no limit
};

// Modes without global steps: the clock of the job's slowest slot, and the parameters that follow from it.
struct ClockUpdate {
  Term term;
  Generation generation;
  SequenceNumber clock;
  StepParameters parameters;
};

struct Shutdown {  // the job is over: the shard stops serving and exits
  Term term;
  Generation generation;
};

}  // namespace capstan
