// PushLine: a session's pushes and ends of slots that one shard has not acknowledged yet, and the pace of everything
// that the session sends to that shard.
//
// Kind:   owned by a ShardLink; part of Session's core.
// Limits: pushes in flight within the shard's credit (PushCredit) and the line's window (LinePace).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/wire/line_pace.h"
#include "worker/session/pending_pushes.h"
#include "worker/session/push_credit.h"
#include "worker/session/shard_peer.h"

namespace capstan::session {

class PushLine {
 public:
  // `shard` outlives this. `unstaged` counts the unacknowledged pushes of all lines.
  PushLine(ShardPeer* shard, LinePace pace, std::unique_ptr<PushCredit> credit, std::size_t* unstaged)
      : shard_(shard), pace_(pace), credit_(std::move(credit)), pushes_(unstaged) {}

  // Adds a push of a block of this shard, and sends it if there is room.
  void Push(PendingPush push, Instant now, Outbox* out);
  void End(EndSlot end, Instant now, Outbox* out);
  // Sends unsent pushes, as many as the shard's credit and the line allow.
  void SendAllowed(Instant now, Outbox* out);
  // Sends deferred pushes of this round and earlier ones.
  void Release(std::uint64_t round, Instant now, Outbox* out);

  // Drops the pushes and ends of slots that the shard acknowledges. Returns whether a push was among them.
  bool Settle(const Staged& staged, Instant now);
  void TakeCredit(const Staged& staged, Instant now);
  // Takes the shard's answer to a question (a numbered CoverageQuery). What was sent before the question has arrived by
  // then or is lost. So pushes that the shard lacks become unsent, and unacknowledged ends of slots are sent again.
  void SendLost(const Staged& answer, Outbox* out);
  // Whether a push or an end is pending of a slot that is not among `slots`, which ascend.
  bool HasBeyond(const std::vector<SlotIndex>& slots) const;
  // Drops everything of step `passed` and of earlier steps, because these steps are over at the shard.
  void DropThrough(Step passed);

  LinePace& pace() { return pace_; }
  const LinePace& pace() const { return pace_; }
  bool any_ends() const { return !ends_.empty(); }
  bool any_deferred() const { return pushes_.any_deferred(); }
  // Pushes that wait for credit or for room on the line.
  std::size_t unsent_pushes() const { return pushes_.unsent(); }
  // Whether pushes are pending that this worker sends itself.
  bool any_own() const { return pushes_.any_own(); }
  // Returns the oldest round with pending pushes.
  std::optional<PendingRound> oldest() const { return pushes_.oldest(); }
  Step newest_step() const { return credit_->step(); }
  // Unanswered returns the pushes in flight by step, for a question about them. If none is in flight, a question names
  // the step that StepWithoutPushes returns: the newest push's if pushes wait for credit, which the answer then brings,
  // or else `step`.
  std::map<Step, std::vector<StagedNode>> Unanswered() const { return pushes_.Unanswered(); }
  Step StepWithoutPushes(Step step) const { return pushes_.empty() ? step : credit_->step(); }

 private:
  struct PendingEnd {
    EndSlot header;
    std::uint64_t number = 0;  // message number on the line to the shard
  };

  ShardPeer* const shard_;
  LinePace pace_;
  const std::unique_ptr<PushCredit> credit_;
  PendingPushes pushes_;
  std::vector<PendingEnd> ends_;
};

}  // namespace capstan::session
