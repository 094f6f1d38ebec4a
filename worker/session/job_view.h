// JobView: the newest state of the job that the coordinator has sent to this session.
//
// Kind:   a value; part of Session's core.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "common/wire/messages/view.h"

namespace capstan::session {

class JobView {
 public:
  bool known() const { return view_.has_value(); }
  // Returns the newest view. Call it only once a view is known.
  const View& newest() const { return *view_; }
  std::uint64_t sequence() const { return view_ ? view_->sequence : 0; }
  // Returns this session's slots.
  std::vector<SlotIndex> slots() const { return view_ ? view_->slots : std::vector<SlotIndex>(); }

  // Returns the id of the job; null until the coordinator has sent it, together with the job file.
  JobId job() const { return job_; }
  void SetJob(JobId job) { job_ = job; }

  // Whether the view is older than the newest view taken: by its term, then by its sequence number.
  bool IsOlder(const View& view) const;
  // Whether the view is well formed: the job has as many slots as before, this session's ascend and belong to it,
  // shards are numbered 0, 1, 2 and so on, and this worker is a member of its group.
  bool IsSound(const View& view) const;
  // Whether the view has a notice for the user that differs from the notice of the newest view taken.
  bool HasNewNotice(const View& view) const { return !view.notice.empty() && (!view_ || view.notice != view_->notice); }
  // Takes the view as the newest. `keep_slots`: this session's slots stay as in the view before.
  void Take(const View& view, bool keep_slots);
  // Whether this session's slots have changed since the last call. The first view's slots are no change.
  bool TakeSlotsChanged() { return std::exchange(slots_changed_, false); }
  // Whether this process has been given another session since the last call. The first one is no change.
  bool TakeSessionChanged() { return std::exchange(session_changed_, false); }

 private:
  JobId job_;
  std::optional<View> view_;
  bool slots_changed_ = false;
  bool session_changed_ = false;
};

}  // namespace capstan::session
