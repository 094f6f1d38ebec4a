// PendingPushes: what one shard has not acknowledged yet of the gradients pushed to it, in push order.
//
// Kind:   a value; part of Session's core.
// Why:    an acknowledgement costs what it names and what it lets go, however many blocks are on their way.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "common/base/buffer.h"
#include "common/wire/line_pace.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/staged.h"
#include "worker/session/push_way.h"

namespace capstan::client {

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

class PendingPushes {
 public:
  // `position`: of the block in the shard's push order.
  void Add(std::size_t position, PendingPush push);
  // The shard has these of the block at `position`. Whether that was news.
  bool Settle(std::size_t position, Step step, Node node, Instant now, LinePace* line);
  // The shard needs nothing of this step or before.
  void DropThrough(Step passed, LinePace* line);
  // The shard has nothing of this, which was asked for in message `question`: it is to be sent again.
  void Lost(std::size_t position, Step step, Node node, std::uint64_t question, LinePace* line);

  bool empty() const { return pushes_.empty(); }
  std::size_t size() const { return pushes_.size(); }
  bool any_unsent() const { return !unsent_.empty(); }
  bool any_held() const { return !held_.empty(); }
  // Whether something is left that this worker is to send.
  bool any_own() const { return pushes_.size() > held_.size(); }

  // The oldest round that something is left of.
  std::optional<PendingRound> oldest() const;

  // Calls send(&push) for what is to be sent and lies below `credit`, in push order, until one returns that there is no
  // room for it.
  template <class F>
  void SendNew(std::size_t credit, const F& send) {
    while (!unsent_.empty() && unsent_.begin()->position < credit) {
      if (!send(&pushes_.at(*unsent_.begin()))) return;
      unsent_.erase(unsent_.begin());
    }
  }
  // What was sent and is not acknowledged, by step.
  std::map<Step, std::vector<StagedNode>> Unanswered() const;
  // What is held of this round and those before it is to be sent after all.
  void Release(std::uint64_t round);
  // What lies at `credit` or behind was turned away: it is to be sent again.
  void TurnedAway(std::size_t credit, LinePace* line);

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
  void SendLater(Pushes::iterator push, LinePace* line);

  Pushes pushes_;
  std::set<Place> unsent_, held_;
  std::map<std::uint64_t, RoundCount> rounds_;  // how many of pushes_ each has; a round is of one step
  std::uint64_t next_number_ = 0;
};

}  // namespace capstan::client
