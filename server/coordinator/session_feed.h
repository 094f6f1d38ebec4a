// SessionFeed: tells the shards which sessions are alive, and which slots each of them may push (LiveSessions).
//
// Kind:   a value; part of a Job.
// Limits: kEndedMax sessions that have ended are remembered. A shard whose list is older than that gets a whole list.
//         Between two Ticks about kTurnMax sessions and shards are gone through, so that a thousand workers may join at
//         once.
// Why:    a shard takes pushes only from sessions that it was told of, and only for their slots. So each change goes to
//         the shards before the view in which the worker learns of it. A shard is sent what has changed since it was
//         last sent something; if that was lost, its next Hello shows it.
//
// A session may push the slots that its newest view names. It may also push those of earlier views for as long as it
// may act upon these: until it has seen a view without them, and the step in which it saw that view is over. Without
// global steps it keeps them for a generation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/types.h"
#include "common/wire/actor.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/live_sessions.h"

namespace capstan::server {

class ShardTable;

class SessionFeed {
 public:
  static constexpr std::size_t kEndedMax = kWorkersMax, kTurnMax = 4096;

  // A session as the coordinator knows it.
  struct Member {
    SessionId session;
    std::string worker;
    std::vector<SlotIndex> slots;  // that its newest view names, and those of its machine's group; ascending
    bool founder = false;
    bool in_generation = false;       // its last Heartbeat was of the running generation
    std::uint64_t view_sequence = 0;  // number of the newest view that it has seen
  };
  // The state of the job that decides which slots a session may push.
  struct Moment {
    bool runs = false;         // whether workers act upon their views
    std::uint64_t view = 0;    // the number of the newest view
    std::optional<Step> step;  // the step under way; none without global steps
  };

  explicit SessionFeed(std::size_t shards) : shards_(shards) {}

  // Whether Update has taken the members as the view of this number shows them.
  bool IsUpdated(std::uint64_t view) const { return updated_ && *updated_ == view; }
  // Whether a session loses slots of earlier views when the step is over, so that Update may find a change without
  // another view.
  bool any_earlier() const { return any_earlier_; }
  // Takes the members of the job: all of them, each time.
  void Update(const std::vector<Member>& members, const Moment& moment);
  // Forgets earlier views, because a new generation begins.
  void BeginGeneration() { rights_.clear(); }

  // Whether there are changes since the last Send.
  bool any_unsent() const { return sent_ != sequence_; }
  // Whether kTurnMax sessions and shards have been gone through since BeginTurn, so that more should wait.
  bool turn_is_over() const { return turn_ >= kTurnMax; }
  void BeginTurn() { turn_ = 0; }
  // Sends each shard what has changed since it was last sent a list.
  void Send(Term term, const ShardTable& shards, Outbox* out);
  // Notes that a Ping goes to the shard: the Hello that answers it knows all that was sent before.
  void NotePing(ShardIndex shard) { shards_[shard].before_ping = shards_[shard].sent; }
  // Takes the number of the list that the shard has, from its Hello. `is_new`: another incarnation of the shard.
  void NoteHello(ShardIndex shard, std::uint64_t sequence, bool is_new);

 private:
  struct Entry {
    LiveSession session;
    std::uint64_t changed = 0;  // the sequence of the list that has it like this
  };
  struct Rights {
    std::vector<SlotIndex> now;      // slots of the newest view
    std::vector<SlotIndex> earlier;  // slots of earlier views that the session may act upon
    std::uint64_t view = 0;          // number of the first view with `now`
    std::optional<Step> seen_in;     // the step in which it had seen that view
  };
  struct Told {
    std::uint64_t sent = 0;         // sequence of the newest list that was sent
    std::uint64_t before_ping = 0;  // the same when the newest Ping was sent
  };

  static Rights Renewed(Rights rights, const Member& member, const Moment& moment);
  void Set(LiveSession session);
  void End(SessionId session);
  // Makes the list for a shard that has the list `base`.
  LiveSessions MakeList(std::uint64_t base) const;

  std::map<SessionId, Entry> entries_;
  std::map<SessionId, Rights> rights_;
  std::deque<std::pair<std::uint64_t, SessionId>> ended_;  // with the sequence of the list without it
  std::uint64_t sequence_ = 1;                             // of the present list; the first one is empty
  std::uint64_t forgotten_ = 0;  // it is no longer known which sessions ended before the list of this sequence
  std::uint64_t sent_ = 0;       // the sequence at the last Send
  std::size_t turn_ = 0;         // how many sessions and shards were gone through in this turn
  bool any_earlier_ = false;
  std::optional<std::uint64_t> updated_;  // number of the view that Update has taken
  Term term_;                             // of the lists that were sent
  std::vector<Told> shards_;
};

}  // namespace capstan::server
