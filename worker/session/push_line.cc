#include "worker/session/push_line.h"

#include <algorithm>
#include <utility>

namespace capstan::session {

void PushLine::Push(PendingPush push, Instant now, Outbox* out) {
  credit_->Begin(push.header.step);
  const std::size_t position = shard_->PositionOf(push.header.block).value();
  pushes_.Add(position, std::move(push));
  SendAllowed(now, out);
}

void PushLine::End(EndSlot end, Instant now, Outbox* out) {
  const std::uint64_t number = ++shard_->sent;
  pace_.Await(now);
  out->Send(shard_->peer, end);
  ends_.push_back({std::move(end), number});
}

void PushLine::SendAllowed(Instant now, Outbox* out) {
  pushes_.SendNew(credit_->positions(), [&](PendingPush* push) {
    if (!credit_->HasRoom(pace_.count()) || !pace_.HasRoom(push->payload.size)) return false;
    push->sent = pace_.Send(++shard_->sent, push->payload.size, now);
    push->header.session = shard_->context.session;  // this worker may have joined again since the push was made
    out->Send(shard_->peer, push->header, push->payload);
    return true;
  });
  if (pushes_.any_unsent()) pace_.Await(now);
}

void PushLine::Release(std::uint64_t round, Instant now, Outbox* out) {
  if (!pushes_.any_deferred()) return;
  pushes_.Release(round);
  SendAllowed(now, out);
}

bool PushLine::Settle(const Staged& staged, Instant now) {
  bool pushes = false, ends = false;
  for (const Staged::Entry& entry : staged.nodes) {
    const std::optional<std::size_t> position = shard_->PositionOf(entry.block);
    if (!position) continue;
    pushes |= pushes_.Settle(*position, staged.step, entry.node, now, &pace_);
  }
  for (SlotIndex slot : staged.ended) {
    ends |= std::erase_if(ends_, [&](const PendingEnd& end) {
              return end.header.step == staged.step && end.header.report.slot == slot;
            }) > 0;
  }
  if (pushes || ends) pace_.News(now);
  return pushes;
}

void PushLine::TakeCredit(const Staged& staged, Instant now) {
  switch (credit_->Take(staged)) {
    case PushCredit::Change::kNone: return;
    case PushCredit::Change::kGrown: return pace_.News(now);
    case PushCredit::Change::kShrunk: return pushes_.TurnedAway(credit_->positions(), &pace_);
  }
}

void PushLine::SendLost(const Staged& answer, Outbox* out) {
  for (const StagedNode& entry : answer.missing) {
    const std::optional<std::size_t> position = shard_->PositionOf(entry.block);
    if (!position) continue;
    pushes_.Lost(*position, answer.step, entry.node, answer.answers, &pace_);
  }
  for (PendingEnd& end : ends_) {
    if (end.number >= answer.answers) continue;
    end.number = ++shard_->sent;
    end.header.session = shard_->context.session;
    out->Send(shard_->peer, end.header);
  }
}

bool PushLine::HasBeyond(const std::vector<SlotIndex>& slots) const {
  return pushes_.HasBeyond(slots) || std::any_of(ends_.begin(), ends_.end(), [&](const PendingEnd& end) {
           const SlotIndex slot = end.header.report.slot;
           return !HasAll(slots, {slot, slot + 1});
         });
}

void PushLine::DropThrough(Step passed) {
  pushes_.DropThrough(passed, &pace_);
  std::erase_if(ends_, [&](const PendingEnd& end) { return end.header.step <= passed; });
}

}  // namespace capstan::session
