// PushCredit: which pushes a shard has room for, as far as the session knows.
//
// Kind:   owned by a PushLine; part of Session's core. One implementation per family of modes.
// Why:    the credit comes with a shard's acknowledgements. Until the first of them (with global steps: the first of
//         each step) the session assumes `initial`.
#pragma once

#include <cstdint>

#include "common/base/types.h"
#include "common/wire/messages/staged.h"

namespace capstan::session {

class PushCredit {
 public:
  explicit PushCredit(std::uint32_t initial) : initial_(initial) {}
  virtual ~PushCredit() = default;

  // Call before each push of this step is added.
  virtual void Begin(Step step) = 0;
  enum class Change { kNone, kGrown, kShrunk };
  // Takes the credit that an acknowledgement carries. kShrunk: the shard does not take pushes at the positions from the
  // new credit on, and those that were sent have to be sent again.
  virtual Change Take(const Staged& staged) = 0;
  // Only pushes at positions (in push order) below this number may be sent.
  virtual std::size_t positions() const = 0;
  // Whether another push may be sent while this many messages on the line are unanswered.
  virtual bool HasRoom(std::size_t in_flight) const = 0;

  // Returns the step of the newest push.
  Step step() const { return step_; }

 protected:
  const std::uint32_t initial_;
  std::uint32_t credit_ = 0;
  Step step_;
};

// With global steps: the credit is how many blocks, the first in push order, the shard takes pushes for.
class WindowCredit final : public PushCredit {
 public:
  using PushCredit::PushCredit;
  void Begin(Step step) override;
  Change Take(const Staged& staged) override;
  std::size_t positions() const override { return credit_; }
  bool HasRoom(std::size_t) const override { return true; }
};

// Without global steps: the credit is how many pushes may be unanswered at a time.
class CountCredit final : public PushCredit {
 public:
  using PushCredit::PushCredit;
  void Begin(Step step) override;
  Change Take(const Staged& staged) override;
  std::size_t positions() const override { return SIZE_MAX; }
  bool HasRoom(std::size_t in_flight) const override { return in_flight < credit_; }
};

}  // namespace capstan::session
