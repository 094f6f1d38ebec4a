// ShardLink: a session's state for one shard: address, line, credit, pull and pending pushes.
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
  std::uint64_t sent = 0;    // number of messages that expect an answer, questions included
  std::uint64_t pulled = 0;  // message number of the newest pull
  LinePace up, down;         // pace of data to the shard; pace of weights from it
  std::uint32_t credit = 0;  // pushes of credit_step that the shard allows; see Staged
  Step credit_step;
  std::vector<BlockIndex> blocks;  // in catalog order
  ShardPull pull{&down};           // state of `blocks` in this round
  bool covered = false;            // the shard has answered this round's coverage query
  Instant last_heard{};
  PendingPushes pushes;  // pushes that the shard has not staged
};

struct Session::ShardLinks : std::map<ShardIndex, ShardLink> {
  std::map<PeerId, ShardLink*> by_peer;
};

}  // namespace capstan::client
