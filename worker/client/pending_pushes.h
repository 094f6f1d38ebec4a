// PendingPushes: what one shard has not acknowledged yet of the gradients pushed to it, in push order.
//
// Kind:   a value; part of Session's core.
// Why:    an acknowledgement costs what it names and what it lets go, however many blocks are on their way.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "common/buffer.h"
#include "common/messages/push.h"
#include "worker/client/push_way.h"

namespace capstan::client {

struct PendingPush {
  Push header;
  Slice payload;
  std::uint64_t round = 0;
  PushWay way = PushWay::kNow;
};

struct PendingRound {
  std::uint64_t round = 0;
  Step step;
};

class PendingPushes {
 public:
  // `position`: of the block in the shard's push order.
  void Add(std::size_t position, PendingPush push);
  // The shard has these of the block at `position`.
  void Settle(std::size_t position, Step step, Node node);
  // The shard needs nothing of this step or before.
  void DropThrough(Step passed);

  bool empty() const { return pushes_.empty(); }
  std::size_t size() const { return pushes_.size(); }
  bool any_unsent() const { return !unsent_.empty(); }
  bool any_held() const { return !held_.empty(); }
  // Whether something is left that this worker is to send.
  bool any_own() const { return pushes_.size() > held_.size(); }

  // The oldest round that something is left of.
  std::optional<PendingRound> oldest() const;

  // Calls send(push) for what was not sent yet and lies below `credit`. Whether there was any.
  template <class F>
  bool SendNew(std::size_t credit, const F& send) {
    bool sent = false;
    for (; !unsent_.empty() && unsent_.begin()->position < credit; unsent_.erase(unsent_.begin())) {
      send(pushes_.at(*unsent_.begin()));
      sent = true;
    }
    return sent;
  }
  // The same for all that lies below `credit` and is not held.
  template <class F>
  bool SendAgain(std::size_t credit, const F& send) {
    unsent_.erase(unsent_.begin(), unsent_.lower_bound({credit, 0}));
    const auto end = pushes_.lower_bound({credit, 0});
    bool sent = false;
    for (auto push = pushes_.begin(); push != end; ++push) {
      if (held_.contains(push->first)) continue;
      send(push->second);
      sent = true;
    }
    return sent;
  }
  // What is held of this round and those before it is to be sent after all.
  void Release(std::uint64_t round);
  // What lies at `credit` or behind was turned away: it is sent anew.
  void TurnedAway(std::size_t credit);

 private:
  struct Place {
    std::size_t position = 0;
    std::uint64_t number = 0;  // counts pushes
    auto operator<=>(const Place&) const = default;
  };
  struct RoundCount {
    Step step;
    std::size_t count = 0;
  };
  using Pushes = std::map<Place, PendingPush>;
  Pushes::iterator Erase(Pushes::iterator push);

  Pushes pushes_;
  std::set<Place> unsent_, held_;
  std::map<std::uint64_t, RoundCount> rounds_;  // how many of pushes_ each has; a round is of one step
  std::uint64_t next_number_ = 0;
};

}  // namespace capstan::client
