// IsReaders, CheckSession, CheckFence: whether a shard takes a worker's or a reader's message, by who sent it and for
// when it is meant.
//
// Kind:  pure functions. The Checks answer an Error and return false if the message is not to be taken.
// Why:   a sender that the coordinator has not named may be a stranger. Its Error tells none of the job's numbers.
#pragma once

#include <type_traits>

#include "common/base/types.h"
#include "common/wire/actor.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/pull.h"

namespace capstan::server {

struct ShardContext;

// Whether a reader, which has no session, may send this message: a Pull, or a CoverageQuery that only asks about pulls.
template <class Body>
bool IsReaders(const Body& body) {
  if constexpr (std::is_same_v<Body, CoverageQuery>) {
    return body.session.value == 0 && body.question != 0 && body.nodes.empty();
  }
  return std::is_same_v<Body, Pull>;
}

// Whether this is a live session.
bool CheckSession(const ShardContext& shard, PeerId from, SessionId session, Outbox* out);

struct Addressed {  // a worker's message, without its contents
  PeerId from;
  SessionId session;
  Generation generation;
  Incarnation incarnation;
  bool serving = false;  // whether the shard serves
};
// Whether a message is for the shard's incarnation and generation, and the shard serves.
bool CheckFence(const ShardContext& shard, const Addressed& message, Outbox* out);

}  // namespace capstan::server
