// CheckPush, CheckPull: whether a worker's message fits the blocks of this shard.
//
// Kind:   pure functions.
// Fails:  kInvalid: it does not fit; kCorrupt: the payload does not match its hash. The text says what was expected.
#pragma once

#include "common/base/buffer.h"
#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan {
struct Pull;
struct Push;
}  // namespace capstan

namespace capstan::server {

struct ShardContext;

// The nodes of the reduction tree that a push may bring: those of one slot, or also sums of several.
enum class TakenNodes { kLeaves, kAll };

Status CheckPush(const ShardContext& shard, const Push& push, const Slice& payload, TakenNodes taken);

// The fault of a pull, and the block that has it; 0 if no single block is at fault.
struct PullFault {
  Status status;
  BlockIndex block = 0;
};
PullFault CheckPull(const ShardContext& shard, const Pull& pull);

}  // namespace capstan::server
