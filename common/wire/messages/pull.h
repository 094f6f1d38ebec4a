// Pull: a worker asks a shard for blocks.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/types.h"

namespace capstan {

// External: the number of the array that a step makes, the mean gradient of the step before the version. Shards keep it
// besides the arrays of the version that they have.
inline constexpr std::uint32_t kMeanGradient = UINT32_MAX;

struct Pull {
  Generation generation;
  Incarnation incarnation;
  SessionId session;
  Version version;  // the wanted version; bounded: the clock of the worker's slot; async: any is answered
  std::vector<BlockIndex> blocks;
  std::uint32_t array = 0;  // 0: weights; then the optimizer's states; kMeanGradient
  // The wanted encoding of the weights: kFp32 or the job's own. States and blocks of statistics always come as fp32.
  Encoding encoding = Encoding::kFp32;
  // sync: blocks that the shard may send speculatively, before the version is published, a few at a time. In each
  // attempt of the step a block is sent once; the worker pulls a lost one again after publication.
  std::vector<BlockIndex> speculative;
  bool follows = false;  // whether Published is sent, before the blocks, when the version is published
};

}  // namespace capstan
