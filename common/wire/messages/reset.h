// Reset: the coordinator tells a shard which generation and version to serve.
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
  std::uint64_t digest = 0;  // digest of the part
  std::string endpoint;      // address of the shard
  bool operator==(const PartSource&) const = default;
};

// Starts `generation` on one incarnation of a shard. If `timeline` begins with this generation, the shard drops what it
// has and serves the version of `snapshot`, or version 0. If `timeline` is older, the shard continues it from memory. A
// shard that was restarted restores its memory from `snapshot` and its push log; without a log it answers ResetBad.
struct Reset {
  Term term;
  Generation generation;
  Incarnation incarnation;
  JobId job;
  SnapshotId snapshot;        // none: version 0, whose weights are computed from the seed
  StepParameters parameters;  // parameters of the first step
  SlotIndex slot_count = 0;
  std::vector<TensorSpec> catalog;
  using Source = PartSource;
  std::vector<Source> sources;  // one source for each shard that wrote the snapshot
  TimelineId timeline;
  std::uint64_t fetch_key = 0;  // a secret of this job's shards: a shard answers a Fetch only if it has this key
};

}  // namespace capstan
