// ParkedPull: a pull that waits for a version.
//
// Kind:   a value; part of the Shard, for its sources only.
#pragma once

#include <vector>

#include "common/wire/messages/pull.h"
#include "server/shard/shard.h"

namespace capstan::server {

struct Shard::ParkedPull {
  PeerId peer;
  Pull pull;
  Instant since{};
  std::vector<BlockIndex> sent;  // blocks sent speculatively for the present attempt
};

}  // namespace capstan::server
