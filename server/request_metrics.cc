#include "server/request_metrics.h"

#include <optional>
#include <type_traits>

namespace capstan::server {
namespace {

using monitoring::RequestOp;

std::optional<RequestOp> OpOf(const Header& header) {
  return std::visit(
      [](const auto& body) -> std::optional<RequestOp> {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, Join>) return RequestOp::kJoin;
        if constexpr (std::is_same_v<Body, Push>) return RequestOp::kPush;
        if constexpr (std::is_same_v<Body, Pull>) return RequestOp::kPull;
        if constexpr (std::is_same_v<Body, EndSlot>) return RequestOp::kEndSlot;
        if constexpr (std::is_same_v<Body, Beat>) return RequestOp::kHeartbeat;
        constexpr bool kOther =
            std::is_same_v<Body, CoverageQuery> || std::is_same_v<Body, Leave> || std::is_same_v<Body, Assign>;
        if constexpr (kOther) return RequestOp::kOther;
        return std::nullopt;
      },
      header);
}

}  // namespace

void CountRequest(const Message& request, const Outbox& answers,
                  monitoring::ByOp<monitoring::ByCode<monitoring::Counter>>* requests) {
  const std::optional<RequestOp> op = OpOf(request.header);
  if (!op) return;
  Code code = Code::kOk;
  for (const Envelope& answer : answers.envelopes) {
    if (const auto* error = std::get_if<Error>(&answer.message.header)) code = error->code;
  }
  (*requests)[*op][code].Add();
}

void ShardTimes::Handled(const Message& message, Instant before, Instant after) {
  if (std::holds_alternative<Push>(message.header)) pushes_.push_back(before);
  if (std::holds_alternative<Pull>(message.header)) metrics_->pull_seconds.Observe(after - before);
  const std::uint64_t updates = metrics_->updates_applied.value() + metrics_->steps_redone.value();
  if (updates != updates_seen_) metrics_->apply_seconds.Observe(after - before);
  if (lane_ != nullptr) Trace(message, before, after, updates != updates_seen_);
  updates_seen_ = updates;
}

// What changes blocks is "apply", whatever message completed them.
void ShardTimes::Trace(const Message& message, Instant before, Instant after, bool applied) {
  if (const auto* push = std::get_if<Push>(&message.header)) {
    lane_->Add(applied ? "apply" : "stage", before, after, push->step.value);
  } else if (const auto* commit = std::get_if<Commit>(&message.header)) {
    lane_->Add(applied ? "apply" : "commit", before, after, commit->step.value);
  } else if (const auto* redo = std::get_if<Redo>(&message.header)) {
    lane_->Add("redo", before, after, redo->step.value);
  } else if (std::holds_alternative<Pull>(message.header)) {
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
