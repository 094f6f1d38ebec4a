#include "server/net/request_metrics.h"

#include <optional>

#include "common/wire/messages/commit.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/team.h"
#include "common/wire/messages/upload_block.h"

namespace capstan::server {
namespace {

using monitoring::RequestOp;

std::optional<RequestOp> OpOf(const Header& header) {
  if (header.Is<Join>()) return RequestOp::kJoin;
  if (header.Is<Push>()) return RequestOp::kPush;
  if (header.Is<Pull>()) return RequestOp::kPull;
  if (header.Is<EndSlot>()) return RequestOp::kEndSlot;
  if (header.Is<Heartbeat>()) return RequestOp::kHeartbeat;
  if (header.Is<CoverageQuery>() || header.Is<Leave>() || header.Is<UploadBlock>() || header.Is<TeamAsk>() ||
      header.Is<TeamGive>())
    return RequestOp::kOther;
  return std::nullopt;
}

}  // namespace

void CountRequest(const Message& request, const Outbox& answers,
                  monitoring::ByOp<monitoring::ByCode<monitoring::Counter>>* requests) {
  const std::optional<RequestOp> op = OpOf(request.header);
  if (!op) return;
  Code code = Code::kOk;
  for (const Envelope& answer : answers.envelopes) {
    if (const auto* error = answer.message.header.As<Error>()) code = error->code;
  }
  (*requests)[*op][code].Add();
}

void ShardTimes::Handled(const Message& message, Instant before, Instant after) {
  if (message.header.Is<Push>()) pushes_.push_back(before);
  if (message.header.Is<Pull>()) metrics_->pull_seconds.Observe(after - before);
  const std::uint64_t updates = metrics_->updates_applied.value() + metrics_->steps_redone.value();
  if (updates != updates_seen_) metrics_->apply_seconds.Observe(after - before);
  CountPhase(message, after - before, updates != updates_seen_);
  if (lane_ != nullptr) Trace(message, before, after, updates != updates_seen_);
  updates_seen_ = updates;
}

void ShardTimes::CountPhase(const Message& message, Instant took, bool applied) {
  using enum monitoring::ShardPhase;
  const Header& header = message.header;
  metrics_
      ->phase_seconds[applied               ? kApply
                      : header.Is<Push>()   ? kStage
                      : header.Is<Commit>() ? kCommit
                      : header.Is<Pull>()   ? kPull
                                            : kOther]
      .Add(took);
}

// Adds the message to the trace. If it updated blocks, the entry is called "apply", except for a Redo or a Pull.
void ShardTimes::Trace(const Message& message, Instant before, Instant after, bool applied) {
  if (const auto* push = message.header.As<Push>()) {
    lane_->Add(applied ? "apply" : "stage", before, after, push->step.value);
  } else if (const auto* commit = message.header.As<Commit>()) {
    lane_->Add(applied ? "apply" : "commit", before, after, commit->step.value);
  } else if (const auto* redo = message.header.As<Redo>()) {
    lane_->Add("redo", before, after, redo->step.value);
  } else if (message.header.Is<Pull>()) {
    lane_->Add("pull", before, after);
  } else if (applied) {
    lane_->Add("apply", before, after);
  }
}

void ShardTimes::Flushed(Instant now) {
  for (Instant received : pushes_) metrics_->push_seconds.Observe(now - received);
  pushes_.clear();
}

void ShardTimes::SeePrepared(bool prepared, Instant now) {
  if (prepared == prepared_) return;
  prepared_ = prepared;
  if (prepared) prepared_since_ = now;
  if (!prepared) metrics_->verdict_wait_seconds.Observe(now - prepared_since_);
}

}  // namespace capstan::server
