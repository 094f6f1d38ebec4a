// Session, for machines whose workers add up their pushes: it follows the machine's group and watches held pushes.
#include <algorithm>

#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/view.h"
#include "worker/session/pending_end.h"
#include "worker/session/session.h"
#include "worker/session/shard_link.h"

namespace capstan::client {

void Session::SayLocalGroup(std::uint64_t epoch, GroupState state, std::string text, Instant now, Outbox* out) {
  if (ended_ || left_ || session_.value == 0 || epoch != local_.epoch) return;
  local_.group = state;
  local_.text = std::move(text);
  SendBeat(now, out);
}

// When the machine's group is over, each member sends the pushes that it held for the group.
void Session::HearOfLocalGroup(Instant now, Outbox* out) {
  if (Replicated()) return;
  const std::vector<GroupMember>& members = view_->group;
  const auto me = std::find_if(members.begin(), members.end(),
                               [this](const GroupMember& member) { return member.session == session_; });
  const LocalGroup group{view_->group_epoch, me == members.end() ? std::vector<GroupMember>() : members,
                         me == members.end() ? 0 : static_cast<int>(me - members.begin())};
  if (group.epoch != local_.epoch) {
    ReleasePushes(round_, now, out);
    local_.epoch = group.epoch;
    local_.group = GroupState::kNone;
    local_.text.clear();
    local_.known = false;
    events_.push_back(group);
    return;
  }
  if (local_.known || local_.group != GroupState::kOffered || group.members.empty()) return;
  local_.known =
      std::none_of(members.begin(), members.end(), [](const GroupMember& member) { return member.address.empty(); });
  if (local_.known) events_.push_back(group);
}

void Session::ReleasePushes(std::uint64_t round, Instant now, Outbox* out) {
  if (announced_) local_.released = std::max(local_.released, round);  // pushes of later calls are not held either
  for (auto& [shard, link] : *links_) {
    if (!link.pushes.any_held()) continue;
    link.pushes.Release(round);
    SendAllowed(&link, now, out);
  }
}

void Session::SumsMade(std::uint64_t round, Instant now) {
  if (round == local_.held) local_.held_moved = now;
}

// Shards acknowledge a sum only to the worker that pushed it, so this worker asks. On a slow link sums take long; as
// long as each question finds more of them, they are still arriving.
void Session::LookAfterHeld(Instant now, Outbox* out) {
  if (!local_.held_moved || now - *local_.held_moved < kHeldAsk) return;
  const bool any =
      std::any_of(links_->begin(), links_->end(), [](const auto& entry) { return entry.second.pushes.any_held(); });
  if (!any) return local_.held_moved.reset();
  if (now - *local_.held_moved >= kHeldMax) return ReleasePushes(round_, now, out);
  if (now < local_.next_question) return;
  local_.next_question = now + kHeldAsk;
  for (auto& [shard, link] : *links_) {
    if (!link.pushes.any_held()) continue;
    out->Send(link.peer, CoverageQuery{generation_, link.address.incarnation, session_, link.credit_step});
  }
}

// Held pushes do not count: another worker sends them.
bool Session::AllStaged() const {
  return ends_.empty() &&
         std::none_of(links_->begin(), links_->end(), [](const auto& entry) { return entry.second.pushes.any_own(); });
}

// Whether this worker has done its slots and waits for other workers' gradients, whose sums it pushes.
bool Session::AwaitsMachine() const {
  return local_.epoch != 0 && !Replicated() &&
         std::all_of(round_slots_.begin(), round_slots_.end(),
                     [this](SlotIndex slot) { return Has(done_slots_, slot); });
}

}  // namespace capstan::client
