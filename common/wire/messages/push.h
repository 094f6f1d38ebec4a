// Push: a worker sends a shard a block's gradient.
//
// Kind:   values.
#pragma once

#include <capstan/hyper_parameters.h>

#include <cstdint>
#include <vector>

#include "common/base/types.h"
#include "common/data/reduction_tree.h"

namespace capstan {

// The payload is the block's gradient. For a node of one slot it is the mean gradient over the slot's samples. For a
// larger node it is the sum of samples * mean over the node's slots. With samples = 0 there is no payload, and the node
// adds nothing.
struct Push {
  Generation generation;
  Incarnation incarnation;  // the receiving shard's
  SessionId session;
  Step step;  // async, bounded: sequence number of the slot, 1 for its first push
  Node node;
  BlockIndex block = 0;
  std::uint64_t samples = 0;
  std::uint64_t payload_hash = 0;       // XXH3-64
  Encoding encoding = Encoding::kFp32;  // the job's own for leaves, kFp32 for sums and statistics
  std::vector<HyperParameters> hyper;   // hyper-parameters of every group, if the program sets them; else empty
  float loss_scale = 1.0F;              // loss scale of the payload; sync: the step's, else the slot's own
};

}  // namespace capstan
