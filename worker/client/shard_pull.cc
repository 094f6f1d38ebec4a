#include "worker/client/shard_pull.h"

#include <algorithm>
#include <utility>

namespace capstan::client {

void ShardPull::Begin(std::size_t blocks, bool follows) {
  state_.assign(blocks, State::kMissing);
  next_ = asked_ = arrived_ = 0;
  follows_ = follows;
  bare_ = false;
  attempt_ = 0;
  held_.clear();
}

void ShardPull::BeginBare() {
  Begin(0, true);
  bare_ = true;
}

std::vector<std::size_t> ShardPull::AskFor(std::size_t first_window, std::size_t window) {
  std::vector<std::size_t> more;
  if (asked_ > window / 2) return more;
  const std::size_t most = arrived_ == 0 ? first_window : window;
  for (; next_ < state_.size() && asked_ < most; ++next_) {
    if (state_[next_] != State::kMissing) continue;
    state_[next_] = State::kAsked;
    ++asked_;
    more.push_back(next_);
  }
  return more;
}

std::vector<std::size_t> ShardPull::Asked() const {
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < state_.size() && asked.size() < asked_; ++i) {
    if (state_[i] == State::kAsked) asked.push_back(i);
  }
  return asked;
}

std::vector<std::size_t> ShardPull::Ahead() const {
  std::vector<std::size_t> ahead;
  if (!follows_) return ahead;
  for (std::size_t i = 0; i < std::min(state_.size(), kAheadMax); ++i) {
    if (state_[i] == State::kMissing || state_[i] == State::kAsked) ahead.push_back(i);
  }
  return ahead;
}

bool ShardPull::Hold(std::size_t index, std::uint32_t attempt, Slice payload) {
  if (!follows_ || index >= std::min(state_.size(), kAheadMax) || state_[index] == State::kArrived) return false;
  if (attempt < attempt_) return false;
  if (attempt > attempt_) Drop();
  attempt_ = attempt;
  if (state_[index] == State::kHeld) return false;
  if (state_[index] == State::kAsked) --asked_;
  state_[index] = State::kHeld;
  held_[index] = std::move(payload);
  return true;
}

void ShardPull::Arrive(std::size_t index) {
  if (state_[index] == State::kAsked) --asked_;
  if (state_[index] == State::kHeld) held_.erase(index);
  state_[index] = State::kArrived;
  ++arrived_;
}

std::vector<ShardPull::Held> ShardPull::Publish(std::uint32_t attempt, bool kept) {
  std::vector<Held> published;
  if (!follows_) return published;
  follows_ = false;
  if (!kept || attempt != attempt_) Drop();
  for (auto& [index, payload] : held_) {
    state_[index] = State::kArrived;
    ++arrived_;
    published.push_back({index, std::move(payload)});
  }
  held_.clear();
  return published;
}

void ShardPull::Drop() {
  for (const auto& [index, payload] : held_) {
    state_[index] = State::kMissing;
    next_ = std::min(next_, index);
  }
  held_.clear();
}

}  // namespace capstan::client
