#include "worker/session/job_view.h"

#include "common/wire/messages/limits.h"

namespace capstan::session {

bool JobView::IsOlder(const View& view) const {
  if (!view_) return false;
  return view.term < view_->term || (view.term == view_->term && view.sequence < view_->sequence);
}

bool JobView::IsSound(const View& view) const {
  if (view.slot_count > kSlotsMax || (view_ && view.slot_count != view_->slot_count)) return false;
  if (!view.group.empty() && view.group_rank >= view.group.size()) return false;
  for (std::size_t i = 0; i < view.slots.size(); ++i) {
    if (view.slots[i] >= view.slot_count || (i > 0 && view.slots[i] <= view.slots[i - 1])) return false;
  }
  for (std::size_t i = 0; i < view.shards.size(); ++i) {
    if (view.shards[i].shard != i) return false;
  }
  return true;
}

void JobView::Take(const View& view, bool keep_slots) {
  std::optional<View> before = std::exchange(view_, view);
  if (!before) return;
  session_changed_ = session_changed_ || view_->session != before->session;
  if (keep_slots)
    view_->slots = std::move(before->slots);
  else if (view_->slots != before->slots)
    slots_changed_ = true;
}

}  // namespace capstan::session
