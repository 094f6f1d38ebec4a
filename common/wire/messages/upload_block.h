// UploadBlock, UploadAck: an array of a block that a worker uploads to a shard, and the shard's answer.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/types.h"

namespace capstan {

// The payload is one array of a block: of the initial weights (a block with tensors of kFromWorker), in allreduce of
// the version that `step` makes, in an external job of the version that `step` begins with. The shard answers with
// UploadAck when it has all arrays of the block. If one array is sent several times, the first copy counts.
struct UploadBlock {
  Generation generation;
  Incarnation incarnation;
  SessionId session;
  BlockIndex block = 0;
  std::uint64_t payload_hash = 0;
  Step step = {};                  // 0 for initial weights
  std::uint32_t array = 0;         // 0: weights; then the optimizer's states
  std::string program_state = {};  // external: the version's program state; only with the weights of block 0
};

struct UploadAck {
  Generation generation;
  Incarnation incarnation;
  ShardIndex shard = 0;
  std::vector<BlockIndex> blocks;  // blocks whose arrays this shard has
  Step step;                       // step of the UploadBlocks; UploadBlocks for a past step are acknowledged unread
};

}  // namespace capstan
