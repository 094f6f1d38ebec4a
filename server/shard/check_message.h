// CheckPush, CheckPull: whether a worker's push or pull is valid for the blocks of this shard.
//
// Kind:   pure functions.
// Fails:  kInvalid: the message does not fit this shard's blocks or a limit; kCorrupt: a push's payload does not match
//         its hash.
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

// The hash of a payload that is lent, and so may still change, is not checked yet.
Status CheckPush(const ShardContext& shard, const Push& push, const Slice& payload);
// Returns the error of a push whose payload does not match its hash.
Status DamagedPush(const Push& push);

// The fault of a pull (ok: none), and the block that is at fault; 0 if the fault is not in one block.
struct PullFault {
  Status status;
  BlockIndex block = 0;
};
PullFault CheckPull(const ShardContext& shard, const Pull& pull);

}  // namespace capstan::server
