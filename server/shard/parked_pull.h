// ParkedPull: a pull that waits for a version.
//
// Kind:   a value; part of the Shard, used only by its sources.
#pragma once

#include <vector>

#include "common/wire/messages/pull.h"
#include "server/shard/shard.h"

namespace capstan::server {

struct Shard::ParkedPull {
  PeerId peer;
  Pull pull;
  Instant since{};
  std::vector<BlockIndex> sent;  // blocks of the current attempt that were sent as tentative weights
};

}  // namespace capstan::server
