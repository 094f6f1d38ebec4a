// ShardLink: what a session knows of one shard, and has for it.
//
// Kind:   a value; part of the Session, for its sources only.
#pragma once

#include <map>
#include <vector>

#include "common/wire/line_pace.h"
#include "common/wire/messages/shard_address.h"
#include "worker/session/pending_pushes.h"
#include "worker/session/session.h"
#include "worker/session/shard_pull.h"

namespace capstan::client {

struct Session::ShardLink {
  explicit ShardLink(std::uint64_t key, Instant first_wait)
      : up(key, {first_wait, LinePace::kMostWait}), down(key + 1, {first_wait, LinePace::kMostWait}) {}
  ShardLink(const ShardLink&) = delete;
  ShardLink& operator=(const ShardLink&) = delete;

  ShardAddress address;
  PeerId peer;
  std::uint64_t sent = 0;    // what was sent over this line and expects an answer, and questions
  std::uint64_t pulled = 0;  // number of the newest pull, which names all that is waited for by then
  LinePace up, down;         // of what is given to the shard; of weights
  std::uint32_t credit = 0;  // for pushes of credit_step
  Step credit_step;
  std::vector<BlockIndex> blocks;  // in catalog order
  ShardPull pull{&down};           // of `blocks`, in this round
  bool covered = false;            // its coverage of this round is known
  Instant last_heard{};
  PendingPushes pushes;  // not staged yet
};

struct Session::ShardLinks : std::map<ShardIndex, ShardLink> {
  std::map<PeerId, ShardLink*> by_peer;
};

}  // namespace capstan::client
