// Prepared, PrepareReport: a shard's report of a prepared step.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/wire/messages/slot_report.h"

namespace capstan {

// What a shard has prepared of a step. Lists by segment or by block are in catalog order.
struct PrepareReport {
  // By segment of this shard's blocks: the sum of squares of the averaged gradient before clipping; 0 for statistics.
  // It is not finite if a gradient was not.
  std::vector<double> segment_squares;
  std::vector<SlotReport> slots;             // reports of the slots whose home is this shard
  std::vector<std::uint64_t> block_samples;  // samples in the sum of each block of this shard
  std::uint64_t hyper_hash = 0;              // hash of the hyper-parameters in the pushes; 0: there were none
  double learning_rate = 0.0;                // learning rate of group 1 in the pushes; meaningless if there were none
  // By segment, for optimizers with trust ratios (else empty): the sums of squares of the weights, and of the update's
  // direction with this attempt's clip factor.
  std::vector<double> weight_squares, direction_squares;
  std::string program_state;   // state from EndSlots of slots whose home is this shard; empty: none brought one
  SlotIndex program_slot = 0;  // the lowest slot that brought that state
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
