#include "common/wire/held_messages.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace capstan {

CoalescedFrame* HeldMessages::Find(PeerId peer) {
  const auto end = frames_.begin() + static_cast<std::ptrdiff_t>(count_);
  const auto found = std::find_if(frames_.begin(), end, [&](const CoalescedFrame& held) { return held.to() == peer; });
  return found == end ? nullptr : &*found;
}

bool HeldMessages::Hold(PeerId to, const CoalescedMessage& message, Time now) {
  if (!CoalescedFrame::Fits(message)) return false;
  CoalescedFrame* held = Find(to);
  if (held == nullptr) {
    if (count_ == kPeersMax) return false;
    held = &frames_[count_++];
    held->Begin(to, now);
  }
  if (held->full()) return false;
  held->Add(message);
  if (held->full() && !held->is_blocked()) (void)Send(held);
  return true;
}

int HeldMessages::Send(PeerId to) {
  CoalescedFrame* const held = Find(to);
  return held == nullptr ? 0 : Send(held);
}

int HeldMessages::Send(CoalescedFrame* frame) {
  const int failure = send_(frame->to(), frame->bytes());
  if (failure == EAGAIN) {
    frame->Block();
    return failure;
  }
  if (failure != 0) *dropped_ += frame->messages();
  Remove(frame);
  return failure;
}

bool HeldMessages::SendSince(Time begun) {
  bool any = false;
  for (std::size_t i = count_; i-- > 0;) {
    if (frames_[i].is_blocked() || frames_[i].begun() > begun) continue;
    (void)Send(&frames_[i]);
    any = true;
  }
  return any;
}

void HeldMessages::Retry() {
  for (std::size_t i = count_; i-- > 0;) (void)Send(&frames_[i]);
}

void HeldMessages::End(PeerId peer) {
  if (Send(peer) != EAGAIN) return;
  CoalescedFrame* const held = Find(peer);
  *dropped_ += held->messages();
  Remove(held);
}

void HeldMessages::Remove(CoalescedFrame* frame) { std::swap(*frame, frames_[--count_]); }

}  // namespace capstan
