#include "worker/client/pending_pushes.h"

#include <algorithm>

namespace capstan::client {

void PendingPushes::Add(std::size_t position, PendingPush push) {
  const Place place{position, next_number_++};
  RoundCount& round = rounds_[push.round];
  round.step = push.header.step;
  ++round.count;
  (push.way == PushWay::kHeld ? held_ : unsent_).insert(place);
  pushes_.emplace(place, std::move(push));
}

PendingPushes::Pushes::iterator PendingPushes::Erase(Pushes::iterator push) {
  const auto round = rounds_.find(push->second.round);
  if (--round->second.count == 0) rounds_.erase(round);
  unsent_.erase(push->first);
  held_.erase(push->first);
  return pushes_.erase(push);
}

void PendingPushes::Settle(std::size_t position, Step step, Node node) {
  for (auto push = pushes_.lower_bound({position, 0}); push != pushes_.end() && push->first.position == position;) {
    const Push& header = push->second.header;
    push = header.step == step && node.Contains(header.node) ? Erase(push) : std::next(push);
  }
}

void PendingPushes::DropThrough(Step passed) {
  if (std::none_of(rounds_.begin(), rounds_.end(), [&](const auto& round) { return round.second.step <= passed; }))
    return;
  for (auto push = pushes_.begin(); push != pushes_.end();) {
    push = push->second.header.step <= passed ? Erase(push) : std::next(push);
  }
}

std::optional<PendingRound> PendingPushes::oldest() const {
  if (rounds_.empty()) return std::nullopt;
  return PendingRound{rounds_.begin()->first, rounds_.begin()->second.step};
}

void PendingPushes::TurnedAway(std::size_t credit) {
  for (auto push = pushes_.lower_bound({credit, 0}); push != pushes_.end(); ++push) {
    if (!held_.contains(push->first)) unsent_.insert(push->first);
  }
}

void PendingPushes::Release(std::uint64_t round) {
  for (auto place = held_.begin(); place != held_.end();) {
    const bool meant = pushes_.at(*place).round <= round;
    if (meant) unsent_.insert(*place);
    place = meant ? held_.erase(place) : std::next(place);
  }
}

}  // namespace capstan::client
