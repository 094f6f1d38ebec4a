// Prepared, PrepareReport: what a shard reports of a prepared step.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/wire/messages/slot_report.h"

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

}  // namespace capstan
