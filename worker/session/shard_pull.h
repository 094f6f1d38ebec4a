// ShardPull: which blocks of a round's version have arrived from one shard, and the speculative blocks, which are kept
// until the version is published.
//
// Kind:   a value; part of Session's core. `index` is a block's place among the shard's blocks, in forward order.
// Limits: only the first kSpeculativeMax blocks may come speculatively. They are kept in the received frames.
// Why:    speculative weights are transferred while the coordinator still decides the step. The application sees only
//         published weights.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/types.h"
#include "common/wire/line_pace.h"

namespace capstan::session {

// kBlocks: only blocks are expected. kAnnounced: the shard sends Published before the blocks, and may send speculative
// blocks before that. kBare: only Published is expected, no blocks.
enum class PullKind : std::uint8_t { kBlocks, kAnnounced, kBare };

class ShardPull {
 public:
  static constexpr std::size_t kSpeculativeMax = 16;

  struct SpeculativeBlock {
    std::size_t index = 0;
    Slice payload;
  };

  // `line`: the pace of what the shard sends; outlives this object.
  explicit ShardPull(LinePace* line) : line_(line) {}

  // Starts the pull of another version. `blocks`: how many blocks the shard has.
  void Begin(std::size_t blocks, PullKind kind);
  // Ends the round's pull: drops speculative blocks and unanswered requests.
  void LetGo();

  bool complete() const { return bare_ ? !follows_ : arrived_ == state_.size(); }
  // Whether Published is still expected. Until it comes, blocks may arrive speculatively.
  bool follows() const { return follows_; }
  // Whether the pull may still be parked at the shard as a whole. A new pull then replaces it there.
  bool waits() const { return follows_ && arrived_ == 0; }
  // Whether an answer is expected: requested blocks, or Published for speculative blocks or for a pull without blocks.
  bool awaits() const { return !asked_.empty() || !speculative_.empty() || (bare_ && follows_); }

  // Returns the next blocks to request, so that up to `window` requests are in flight, or up to `first_window` until a
  // block has arrived. Returns none while more than window / 2 are in flight. ask(index) registers one request; it
  // returns nullopt if the line has no room.
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
  // Call when the shard has answered message `question`. Blocks that were requested before that message and have not
  // arrived are lost, and become missing again. Returns whether there were any.
  bool Lost(std::uint64_t question);
  // Returns the blocks that were requested and have not arrived.
  std::vector<std::size_t> Asked() const;
  // Returns the blocks that the shard may send speculatively and that are not here yet.
  std::vector<std::size_t> Candidates() const;
  bool arrived(std::size_t index) const { return state_[index] == State::kArrived; }

  // Takes a speculative block of an attempt at this version, and drops blocks of earlier attempts. Returns false if the
  // block is not needed.
  bool TakeSpeculative(std::size_t index, std::uint32_t attempt, Slice payload);
  // Notes that a block of the published version has arrived.
  void Arrive(std::size_t index, Instant now);
  // Takes Published. Returns the speculative blocks of `attempt`, and counts them as arrived. Speculative blocks of
  // another attempt become missing; all do if `applied` is false (the step was skipped).
  std::vector<SpeculativeBlock> Publish(std::uint32_t attempt, bool applied, Instant now);

 private:
  enum class State : std::uint8_t { kMissing, kAsked, kSpeculative, kArrived };
  void Drop();
  void Miss(std::size_t index);
  void NotAsked(std::size_t index);

  LinePace* const line_;
  std::vector<State> state_;
  std::size_t next_ = 0;  // no block in front of it is missing
  std::map<std::size_t, LinePace::Sent> asked_;
  std::size_t arrived_ = 0;
  bool follows_ = false;
  bool bare_ = false;
  std::uint32_t attempt_ = 0;  // the attempt of all blocks in speculative_
  std::map<std::size_t, Slice> speculative_;
};

}  // namespace capstan::session
