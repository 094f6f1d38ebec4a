#include "worker/session/pending_pushes.h"

#include <algorithm>

namespace capstan::session {

bool HasAll(const std::vector<SlotIndex>& slots, Node node) {
  const auto first = std::lower_bound(slots.begin(), slots.end(), node.begin);
  const auto count = static_cast<std::ptrdiff_t>(node.end - node.begin);
  return slots.end() - first >= count && *first == node.begin && *(first + count - 1) == node.end - 1;
}

void PendingPushes::Add(std::size_t position, PendingPush push) {
  const Place place{position, next_number_++};
  RoundCount& round = rounds_[push.round];
  round.step = push.header.step;
  ++round.count;
  (push.way == PushWay::kDeferred ? deferred_ : unsent_).insert(place);
  pushes_.emplace(place, std::move(push));
  ++*total_;
}

PendingPushes::Pushes::iterator PendingPushes::Erase(Pushes::iterator push) {
  const auto round = rounds_.find(push->second.round);
  if (--round->second.count == 0) rounds_.erase(round);
  unsent_.erase(push->first);
  deferred_.erase(push->first);
  --*total_;
  return pushes_.erase(push);
}

bool PendingPushes::Settle(std::size_t position, Step step, Node node, Instant now, LinePace* line) {
  const std::size_t before = pushes_.size();
  for (auto push = pushes_.lower_bound({position, 0}); push != pushes_.end() && push->first.position == position;) {
    const auto& [header, payload, round, way, sent] = push->second;
    const bool here = header.step == step && node.Contains(header.node);
    if (here && sent) line->Answered(*sent, now);
    push = here ? Erase(push) : std::next(push);
  }
  return pushes_.size() < before;
}

void PendingPushes::DropThrough(Step passed, LinePace* line) {
  if (std::none_of(rounds_.begin(), rounds_.end(), [&](const auto& round) { return round.second.step <= passed; }))
    return;
  for (auto push = pushes_.begin(); push != pushes_.end();) {
    const bool over = push->second.header.step <= passed;
    if (over && push->second.sent) line->Dropped(*push->second.sent);
    push = over ? Erase(push) : std::next(push);
  }
}

void PendingPushes::SendLater(Pushes::iterator push, LinePace* line) {
  line->Dropped(*push->second.sent);
  push->second.sent.reset();
  unsent_.insert(push->first);
}

void PendingPushes::Lost(std::size_t position, Step step, Node node, std::uint64_t question, LinePace* line) {
  for (auto push = pushes_.lower_bound({position, 0}); push != pushes_.end() && push->first.position == position;
       ++push) {
    const auto& [header, payload, round, way, sent] = push->second;
    if (header.step == step && header.node == node && sent && sent->number < question) SendLater(push, line);
  }
}

std::map<Step, std::vector<StagedNode>> PendingPushes::Unanswered() const {
  std::map<Step, std::vector<StagedNode>> unanswered;
  for (const auto& [place, push] : pushes_) {
    if (push.sent) unanswered[push.header.step].push_back({push.header.block, push.header.node});
  }
  return unanswered;
}

bool PendingPushes::HasBeyond(const std::vector<SlotIndex>& slots) const {
  return std::any_of(pushes_.begin(), pushes_.end(),
                     [&](const auto& push) { return !HasAll(slots, push.second.header.node); });
}

std::optional<PendingRound> PendingPushes::oldest() const {
  if (rounds_.empty()) return std::nullopt;
  return PendingRound{rounds_.begin()->first, rounds_.begin()->second.step};
}

void PendingPushes::TurnedAway(std::size_t credit, LinePace* line) {
  for (auto push = pushes_.lower_bound({credit, 0}); push != pushes_.end(); ++push) {
    if (push->second.sent) SendLater(push, line);
  }
}

void PendingPushes::Release(std::uint64_t round) {
  for (auto place = deferred_.begin(); place != deferred_.end();) {
    const bool meant = pushes_.at(*place).round <= round;
    if (meant) unsent_.insert(*place);
    place = meant ? deferred_.erase(place) : std::next(place);
  }
}

}  // namespace capstan::session
