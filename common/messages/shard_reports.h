// Messages of a shard to the coordinator.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/messages/commit.h"
#include "common/messages/slot_report.h"
#include "common/messages/snapshot_id.h"
#include "common/types.h"

namespace capstan {

// A shard's report of a prepared step: sums of squares of its segments, in catalog order.
struct PrepareReport {
  // Of the averaged gradient before clipping, one per segment of this shard's blocks; non-finite when a gradient was.
  std::vector<double> segment_squares;
  std::vector<SlotReport> slots;             // of the slots whose home is this shard
  std::vector<std::uint64_t> block_samples;  // sum of n per block of this shard (all equal in a sound job)
  std::uint64_t hyper_hash = 0;              // of the hyper-parameters that came with the pushes; 0: none came
  double learning_rate = 0.0;                // of the first group of these; of no meaning where none came
  // Where the optimizer takes a trust ratio, as segment_squares, else empty: of the weights, and of what the update
  // goes along by this attempt's clip factor.
  std::vector<double> weight_squares, direction_squares;
  std::string program_state;   // that came with the ends of slots whose home is this shard; empty: with none
  SlotIndex program_slot = 0;  // the first of them
  bool operator==(const PrepareReport&) const = default;
};

struct Prepared {
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  Step step;
  std::uint32_t attempt = 0;
  PrepareReport report;
};

struct Committed {
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  Step step;
};

struct Hello {
  JobId job;  // null for a shard that keeps nothing on disk
  ShardIndex shard = 0;
  Incarnation incarnation;
  Term term;  // echo of the newest term seen
  Generation generation;
  bool serving = false;  // a Reset of `generation` has been carried out
  Version version;       // published
  std::optional<Commit> last_commit;
  std::optional<Prepared> prepared;
  std::uint64_t config_hash = 0;
  std::string endpoint;             // where workers reach this shard
  std::vector<SnapshotPart> parts;  // that this process can serve
  SnapshotId newest_kept;           // the newest snapshot this directory was ever told of
};

struct ResetDone {
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  std::uint64_t digest = 0;  // of the state served
};

struct ResetBad {  // the snapshot asked for cannot be served
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  std::string reason;
};

struct Progress {  // modes without global steps: clocks and the newest reports of this shard's home slots
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  std::vector<std::uint64_t> clocks;  // per slot: pushes applied on all of this shard's blocks
  using Entry = StepReport;
  std::vector<Entry> reports;  // repeated until the coordinator's Rates pass them
};

}  // namespace capstan
