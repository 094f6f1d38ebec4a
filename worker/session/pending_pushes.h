// PendingPushes: a session's pushes to one shard that the shard has not acknowledged yet, in push order.
//
// Kind:   a value; part of Session's core.
// Why:    for acknowledged nodes, only the pending pushes of their blocks have to be looked at, not all of them.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "common/base/buffer.h"
#include "common/wire/line_pace.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/staged.h"
#include "worker/session/push_way.h"

namespace capstan::session {

struct PendingPush {
  Push header;
  Slice payload;
  std::uint64_t round = 0;
  PushWay way = PushWay::kNow;
  std::optional<LinePace::Sent> sent;
};

struct PendingRound {
  std::uint64_t round = 0;
  Step step;
};

// Whether all slots of the node are among `slots`, which ascend.
bool HasAll(const std::vector<SlotIndex>& slots, Node node);

class PendingPushes {
 public:
  // `total` counts the pending pushes to all shards; outlives this object.
  explicit PendingPushes(std::size_t* total) : total_(total) {}

  // `position`: the block's place in the shard's push order.
  void Add(std::size_t position, PendingPush push);
  // Drops this step's pushes of the block at `position` whose nodes lie within `node`, because the shard has them.
  // Returns whether any was pending.
  bool Settle(std::size_t position, Step step, Node node, Instant now, LinePace* line);
  // Drops the pushes of step `passed` and of earlier steps, because these steps are over at the shard.
  void DropThrough(Step passed, LinePace* line);
  // Call when the shard's answer to message `question` names this push as missing. If the push was sent before the
  // question, it is lost, and becomes unsent again.
  void Lost(std::size_t position, Step step, Node node, std::uint64_t question, LinePace* line);

  bool empty() const { return pushes_.empty(); }
  std::size_t size() const { return pushes_.size(); }
  bool any_unsent() const { return !unsent_.empty(); }
  std::size_t unsent() const { return unsent_.size(); }
  bool any_deferred() const { return !deferred_.empty(); }
  // Whether pushes are pending that this worker sends itself (not kDeferred).
  bool any_own() const { return pushes_.size() > deferred_.size(); }

  // Whether a push is pending whose node has a slot that is not among `slots`, which ascend.
  bool HasBeyond(const std::vector<SlotIndex>& slots) const;
  // Returns the oldest round with pending pushes; nullopt if none is pending.
  std::optional<PendingRound> oldest() const;

  // Calls send(&push) for unsent pushes at positions below `credit`, in push order, until `send` returns false because
  // there is no room.
  template <class F>
  void SendNew(std::size_t credit, const F& send) {
    while (!unsent_.empty() && unsent_.begin()->position < credit) {
      if (!send(&pushes_.at(*unsent_.begin()))) return;
      unsent_.erase(unsent_.begin());
    }
  }
  // Returns the pushes that were sent and not acknowledged, by step.
  std::map<Step, std::vector<StagedNode>> Unanswered() const;
  // Turns kDeferred pushes of this round and earlier ones into unsent pushes.
  void Release(std::uint64_t round);
  // Makes pushes at position `credit` and above unsent again, because the shard did not take them.
  void TurnedAway(std::size_t credit, LinePace* line);

 private:
  struct Place {
    std::size_t position = 0;
    std::uint64_t number = 0;  // order of Add
    auto operator<=>(const Place&) const = default;
  };
  struct RoundCount {
    Step step;
    std::size_t count = 0;
  };
  using Pushes = std::map<Place, PendingPush>;
  Pushes::iterator Erase(Pushes::iterator push);
  void SendLater(Pushes::iterator push, LinePace* line);

  std::size_t* const total_;
  Pushes pushes_;
  std::set<Place> unsent_, deferred_;
  std::map<std::uint64_t, RoundCount> rounds_;  // pushes_ per round; a round belongs to one step
  std::uint64_t next_number_ = 0;
};

}  // namespace capstan::session
