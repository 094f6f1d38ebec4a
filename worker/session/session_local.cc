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
  if (ended_ || left_ || session_.value == 0 || epoch != group_->epoch()) return;
  group_->Report(state, std::move(text));
  SendBeat(now, out);
}

void Session::ReleasePushes(std::uint64_t round, Instant now, Outbox* out) {
  if (announced_) held_.Release(round);
  for (auto& [shard, link] : *links_) {
    if (!link.pushes.any_held()) continue;
    link.pushes.Release(round);
    SendAllowed(&link, now, out);
  }
}

void Session::SumsMade(std::uint64_t round, Instant now) { held_.SumsMade(round, now); }

void Session::LookAfterHeld(Instant now, Outbox* out) {
  const bool any =
      std::any_of(links_->begin(), links_->end(), [](const auto& entry) { return entry.second.pushes.any_held(); });
  const HeldPushes::Due due = held_.Tick(any, now);
  if (due == HeldPushes::Due::kRelease) ReleasePushes(round_, now, out);
  if (due != HeldPushes::Due::kAsk) return;
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
  return group_->epoch() != 0 && std::all_of(round_slots_.begin(), round_slots_.end(),
                                             [this](SlotIndex slot) { return Has(done_slots_, slot); });
}

}  // namespace capstan::client
