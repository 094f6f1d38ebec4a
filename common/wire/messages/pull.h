// Pull: a worker asks a shard for blocks.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/types.h"

namespace capstan {

struct Pull {
  Generation generation;
  Incarnation incarnation;
  SessionId session;
  Version version;  // async: the least clock asked for
  std::vector<BlockIndex> blocks;
  std::uint32_t array = 0;  // 0: weights, then the optimizer's states
  // Of weights; states come as fp32. kFp32 or the job's own. Blocks of statistics come as fp32 whatever is asked.
  Encoding encoding = Encoding::kFp32;
  // sync: blocks that are welcome while the version is not published yet, as tentative weights, a few at a time. Each
  // comes once; what was lost is pulled when the version is published.
  std::vector<BlockIndex> ahead;
  bool follows = false;  // answered with Published when the version is, before its blocks
};

}  // namespace capstan
