// ShardPull: what one shard has sent of the version that a round waits for, and what is held until it is published.
//
// Kind:   a value; part of Session's core. Blocks are named by their place among the shard's, in forward order.
// Limits: kAheadMax blocks are held, as the frames that brought them.
// Why:    tentative weights cross the network while the verdict is still open; whoever computes sees published ones
// only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/types.h"
#include "common/wire/line_pace.h"

namespace capstan::client {

class ShardPull {
 public:
  static constexpr std::size_t kAheadMax = 16;

  struct Held {
    std::size_t index = 0;
    Slice payload;
  };

  // `line`: from the shard. It outlives this.
  explicit ShardPull(LinePace* line) : line_(line) {}

  // Another version: nothing of it is here. `follows`: whether its publishing is waited for.
  void Begin(std::size_t blocks, bool follows);
  // The same where blocks are nobody's business: the word that the version is published is all that is waited for.
  void BeginBare();
  // What was held is dropped: the round is over.
  void LetGo();

  bool complete() const { return bare_ ? !follows_ : arrived_ == state_.size(); }
  // Whether the version's publishing is waited for: blocks may come as tentative ones.
  bool follows() const { return follows_; }
  // Whether the pull waits at the shard as a whole, so that a further one takes its place.
  bool waits() const { return follows_ && arrived_ == 0; }
  // Whether this shard owes an answer: blocks that were asked for, or the word on those that are held.
  bool awaits() const { return !asked_.empty() || !held_.empty() || (bare_ && follows_); }

  // Further blocks to ask for, so that `window` of them have no answer; none while more than half of those have none.
  // ask(index) says what was sent for one; nothing when the line has no room for it.
  template <class F>
  std::vector<std::size_t> AskFor(std::size_t first_window, std::size_t window, const F& ask) {
    std::vector<std::size_t> more;
    if (asked_.size() > window / 2) return more;
    const std::size_t most = arrived_ == 0 ? first_window : window;
    for (; next_ < state_.size() && asked_.size() < most; ++next_) {
      if (state_[next_] != State::kMissing) continue;
      const std::optional<LinePace::Sent> sent = ask(next_);
      if (!sent) break;
      state_[next_] = State::kAsked;
      asked_.emplace(next_, *sent);
      more.push_back(next_);
    }
    return more;
  }
  // What was asked for before message `question` and is not here is lost, and missing again. Whether there was any.
  bool Lost(std::uint64_t question);
  // Asked for and not here.
  std::vector<std::size_t> Asked() const;
  // Neither here nor held, of those that may be held.
  std::vector<std::size_t> Ahead() const;
  bool arrived(std::size_t index) const { return state_[index] == State::kArrived; }

  // A tentative block, of an attempt at this version. A later attempt takes the place of all that is held. False: it is
  // of no use.
  bool Hold(std::size_t index, std::uint32_t attempt, Slice payload);
  // A block of the published version.
  void Arrive(std::size_t index, Instant now);
  // The version is published. Returns, and counts as arrived, what is held of this attempt; `kept`: whether any is its
  // own. All else that was held is to be asked for.
  std::vector<Held> Publish(std::uint32_t attempt, bool kept, Instant now);

 private:
  enum class State : std::uint8_t { kMissing, kAsked, kHeld, kArrived };
  void Drop();
  void Miss(std::size_t index);
  void NotAsked(std::size_t index);

  LinePace* const line_;
  std::vector<State> state_;
  std::size_t next_ = 0;  // none is missing in front of it
  std::map<std::size_t, LinePace::Sent> asked_;
  std::size_t arrived_ = 0;
  bool follows_ = false;
  bool bare_ = false;
  std::uint32_t attempt_ = 0;  // of all that is held
  std::map<std::size_t, Slice> held_;
};

}  // namespace capstan::client
