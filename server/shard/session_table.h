// SessionTable: the sessions that the coordinator has named to a shard, and the slots that each of them may push.
//
// Kind:   owned by the Shard, in its ShardContext.
// Limits: kWorkersMax sessions.
// Why:    a session's id is known only to its worker, the coordinator and the shards. So a message with an id from this
//         table comes from a worker of the job, and not from a stranger who has read or guessed the job's numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/types.h"
#include "common/data/reduction_tree.h"
#include "common/wire/messages/live_sessions.h"

namespace capstan::server {

// Whether the session may push this node: whether it may push all the node's slots.
bool MayPush(const LiveSession& session, Node node);

class SessionTable {
 public:
  // Takes the coordinator's list. Returns whether it was used. It is ignored if it is older than this table, or changes
  // a list that is newer than this table, or would make the table too long.
  bool Take(const LiveSessions& list);

  // The sequence of the newest list of this term; 0: none of this term was taken.
  std::uint64_t sequence(Term term) const { return term == term_ ? sequence_ : 0; }
  std::size_t size() const { return sessions_.size(); }
  // All live sessions, in the order of their ids.
  std::vector<LiveSession> sessions() const;
  // Returns null if no live session has this id.
  const LiveSession* Find(SessionId session) const;
  // Returns the name of the session's worker in quotes, or says that the worker has left.
  std::string NameOf(SessionId session) const;

 private:
  struct HashOfId {
    std::size_t operator()(SessionId session) const { return session.value; }  // the ids are random
  };

  Term term_;  // of the coordinator whose list this is
  std::uint64_t sequence_ = 0;
  std::unordered_map<SessionId, LiveSession, HashOfId> sessions_;
};

}  // namespace capstan::server
