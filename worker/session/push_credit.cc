#include "worker/session/push_credit.h"

#include <algorithm>
#include <utility>

namespace capstan::session {

void WindowCredit::Begin(Step step) {
  if (step_ == step && credit_ != 0) return;
  credit_ = initial_;
  step_ = step;
}

PushCredit::Change WindowCredit::Take(const Staged& staged) {
  if (staged.step != step_ || staged.credit == credit_) return Change::kNone;
  // If the credit shrinks, `initial` was above the shard's window.
  return std::exchange(credit_, staged.credit) < staged.credit ? Change::kGrown : Change::kShrunk;
}

void CountCredit::Begin(Step step) {
  if (credit_ == 0) credit_ = initial_;
  step_ = step;
}

PushCredit::Change CountCredit::Take(const Staged& staged) {
  credit_ = std::max(staged.credit, 1U);
  return Change::kNone;
}

}  // namespace capstan::session
