// PushCredit: which pushes a shard has room for, as far as the session knows.
//
// Kind:   owned by a PushLine; part of Session's core. One implementation per family of modes.
// Why:    the shard's credit comes with its acknowledgements. Until the first one the session assumes `initial`.
#pragma once

#include <cstdint>

#include "common/base/types.h"
#include "common/wire/messages/staged.h"

namespace capstan::session {

class PushCredit {
 public:
  explicit PushCredit(std::uint32_t initial) : initial_(initial) {}
  virtual ~PushCredit() = default;

  // Prepares for a push of this step, which is about to be sent.
  virtual void Begin(Step step) = 0;
  enum class Change { kNone, kGrown, kShrunk };
  // Takes the credit that an acknowledgement carries. kShrunk: the shard has turned away pushes at positions of the new
  // credit and above.
  virtual Change Take(const Staged& staged) = 0;
  // Returns how many positions have credit: only pushes at positions below that may be sent.
  virtual std::size_t positions() const = 0;
  // Whether another push may be sent while so many messages are in flight.
  virtual bool HasRoom(std::size_t in_flight) const = 0;

  // Returns the step of the newest push.
  Step step() const { return step_; }

 protected:
  const std::uint32_t initial_;
  std::uint32_t credit_ = 0;
  Step step_;
};

// With global steps: the shard accepts a step's pushes for its first blocks in push order.
class WindowCredit final : public PushCredit {
 public:
  using PushCredit::PushCredit;
  void Begin(Step step) override;
  Change Take(const Staged& staged) override;
  std::size_t positions() const override { return credit_; }
  bool HasRoom(std::size_t) const override { return true; }
};

// Without global steps: the shard accepts a number of unanswered pushes.
class CountCredit final : public PushCredit {
 public:
  using PushCredit::PushCredit;
  void Begin(Step step) override;
  Change Take(const Staged& staged) override;
  std::size_t positions() const override { return SIZE_MAX; }
  bool HasRoom(std::size_t in_flight) const override { return in_flight < credit_; }
};

}  // namespace capstan::session
