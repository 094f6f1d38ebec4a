#include "worker/session/shard_pull.h"

#include <algorithm>
#include <utility>

namespace capstan::session {

void ShardPull::Begin(std::size_t blocks, PullKind kind) {
  LetGo();
  bare_ = kind == PullKind::kBare;
  state_.assign(bare_ ? 0 : blocks, State::kMissing);
  next_ = arrived_ = 0;
  follows_ = kind != PullKind::kBlocks;
  attempt_ = 0;
}

void ShardPull::LetGo() {
  speculative_.clear();
  for (const auto& [index, sent] : asked_) line_->Dropped(sent);
  asked_.clear();
  line_->Rest();
}

bool ShardPull::Lost(std::uint64_t question) {
  const auto lost = std::erase_if(asked_, [&](const auto& asked) {
    if (asked.second.number >= question) return false;
    line_->Dropped(asked.second);
    Miss(asked.first);
    return true;
  });
  return lost > 0;
}

std::vector<std::size_t> ShardPull::Asked() const {
  std::vector<std::size_t> asked;
  for (const auto& [index, sent] : asked_) asked.push_back(index);
  return asked;
}

std::vector<std::size_t> ShardPull::Candidates() const {
  std::vector<std::size_t> candidates;
  if (!follows_) return candidates;
  for (std::size_t i = 0; i < std::min(state_.size(), kSpeculativeMax); ++i) {
    if (state_[i] == State::kMissing || state_[i] == State::kAsked) candidates.push_back(i);
  }
  return candidates;
}

bool ShardPull::TakeSpeculative(std::size_t index, std::uint32_t attempt, Slice payload) {
  if (!follows_ || index >= std::min(state_.size(), kSpeculativeMax) || state_[index] == State::kArrived) return false;
  if (attempt < attempt_) return false;
  if (attempt > attempt_) Drop();
  attempt_ = attempt;
  if (state_[index] == State::kSpeculative) return false;
  NotAsked(index);
  state_[index] = State::kSpeculative;
  speculative_[index] = std::move(payload);
  return true;
}

void ShardPull::NotAsked(std::size_t index) {
  const auto asked = asked_.find(index);
  if (asked == asked_.end()) return;
  line_->Dropped(asked->second);
  asked_.erase(asked);
}

void ShardPull::Arrive(std::size_t index, Instant now) {
  if (const auto asked = asked_.find(index); asked != asked_.end() && !follows_) {
    line_->Answered(asked->second, now);
    asked_.erase(asked);
  }
  NotAsked(index);
  if (state_[index] == State::kSpeculative) speculative_.erase(index);
  state_[index] = State::kArrived;
  ++arrived_;
}

std::vector<ShardPull::SpeculativeBlock> ShardPull::Publish(std::uint32_t attempt, bool applied, Instant now) {
  std::vector<SpeculativeBlock> published;
  if (!follows_) return published;
  follows_ = false;
  // Until now the requested blocks waited for the version. So the line's answer time is measured from now on.
  for (auto& [index, sent] : asked_) sent.at = now;
  if (!applied || attempt != attempt_) Drop();
  for (auto& [index, payload] : speculative_) {
    state_[index] = State::kArrived;
    ++arrived_;
    published.push_back({index, std::move(payload)});
  }
  speculative_.clear();
  return published;
}

void ShardPull::Drop() {
  for (const auto& [index, payload] : speculative_) Miss(index);
  speculative_.clear();
}

void ShardPull::Miss(std::size_t index) {
  state_[index] = State::kMissing;
  next_ = std::min(next_, index);
}

}  // namespace capstan::session
