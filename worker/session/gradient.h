// Gradient: one node of a block's gradient, which the application hands to its session for pushing.
//
// Kind:   a value.
#pragma once

#include <cstdint>

#include "common/base/buffer.h"
#include "common/data/reduction_tree.h"
#include "worker/session/push_way.h"

namespace capstan::session {

struct Gradient {
  std::uint64_t round = 0;  // the round that computed it
  Node node;
  BlockIndex block = 0;
  std::uint64_t samples = 0;
  float loss_scale = 1.0F;
  std::uint64_t payload_hash = 0;
  // A leaf is in its block's encoding, a sum in fp32. The bytes must not change until the shard has acknowledged them.
  Slice payload;
  PushWay way = PushWay::kNow;
};

}  // namespace capstan::session
