// ShardLink: what a session knows of one shard, and has for it.
//
// Kind:   a value; part of the Session, for its sources only.
#pragma once

#include <map>
#include <vector>

#include "common/messages/shard_address.h"
#include "worker/client/pending_pushes.h"
#include "worker/client/session.h"
#include "worker/client/shard_pull.h"

namespace capstan::client {

struct Session::ShardLink {
  ShardAddress address;
  PeerId peer;
  std::uint32_t credit = 0;  // for pushes of credit_step
  Step credit_step;
  std::vector<BlockIndex> blocks;  // in catalog order
  ShardPull pull;                  // of `blocks`, in this round
  bool covered = false;            // its coverage of this round is known
  Backoff retry;
  Instant last_heard{}, next_probe{};
  PendingPushes pushes;  // not staged yet
};

struct Session::ShardLinks : std::map<ShardIndex, ShardLink> {};

}  // namespace capstan::client
