// A shard's report about a prepared step, and how it carries out the coordinator's decision.
#include <utility>

#include "common/wire/messages/commit.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "server/shard/admission.h"
#include "server/shard/parked_pull.h"
#include "server/shard/shard.h"

namespace capstan::server {

TrustSquares Shard::TrustSquaresOf(std::size_t local) {
  if (weight_squares_.empty()) return {};
  const std::size_t start = segment_start_[local], count = context_.store->segment_count(local);
  return {std::span(weight_squares_).subspan(start, count), std::span(direction_squares_).subspan(start, count)};
}

void Shard::PrepareStepWhenComplete(Instant now, Outbox* out) {
  if (!HasGlobalSteps(context_.options.mode) || prepared_ || context_.served.parameters.stop || !BlocksComplete() ||
      reports_.size() < context_.home_slot_count())
    return;
  prepared_ = true;
  prepared_backoff_.Restart();
  prepared_backoff_.Sent(now);
  out->Send(context_.options.coordinator, MakePrepared());
}

Prepared Shard::MakePrepared() const {
  Prepared message{
      context_.options.shard, context_.options.incarnation, context_.generation, context_.step(), attempt_, {}};
  message.report.segment_squares = squares_;
  message.report.weight_squares = weight_squares_;
  message.report.direction_squares = direction_squares_;
  for (const auto& [slot, report] : reports_) message.report.slots.push_back(report);
  if (!WorkersUpdate(context_.options.mode)) {
    for (const BlockProgress& block : progress_) message.report.block_samples.push_back(block.staged.samples());
  }
  message.report.hyper_hash = hyper_parameters_.hash();
  if (!hyper_parameters_.groups().empty()) {
    message.report.learning_rate = hyper_parameters_.groups().front().learning_rate;
  }
  message.report.program_state = program_state_.state();
  message.report.program_slot = program_state_.slot();
  return message;
}

void Shard::Publish(const Commit& commit, Instant now, Outbox* out) {
  CAPSTAN_CHECK(prepared_ && commit.attempt == attempt_ && commit.generation == context_.generation);
  const bool applied = commit.action == StepAction::kApply;
  if (applied || WorkersUpdate(context_.options.mode)) {  // a skipped step uploads the old version again
    context_.store->PublishPrepared();
  } else {
    context_.store->DropPrepared();
  }
  (applied ? context_.metrics->steps_applied : context_.metrics->steps_skipped).Add(1);
  context_.served.version = context_.served.version.Next();
  context_.served.parameters = commit.next;
  NoteHeld();
  context_.served.last_commit = std::make_unique<const Commit>(commit);
  BeginStep();
  context_.metrics->version.Set(static_cast<double>(context_.served.version.value));
  if (context_.served.parameters.snapshot) PinSnapshot({context_.generation, context_.served.version}, now, out);
  AnswerParkedPulls(now, out);
  PrepareStepWhenComplete(now, out);  // a shard without blocks and home slots waits for nothing
}

void Shard::BeginStep() {
  for (BlockProgress& block : progress_) {
    block.staged.Clear();
    block.prepared = false;
  }
  acknowledgements_.BeginStep();
  answered_.clear();
  lowest_incomplete_ = 0;
  attempt_ = 0;
  clip_ = 1.0F;
  trust_ratios_.clear();
  prepared_ = false;
  hyper_parameters_.Clear();
  reports_ = std::exchange(next_reports_, {});
  program_state_ = std::exchange(next_program_state_, {});
}

void Shard::On(const Commit& commit, Instant now, Outbox* out) {
  if (!serving() || commit.generation != context_.generation) return;
  if (commit.step > context_.step()) return;  // impossible: a Commit needs all shards to have prepared the step
  if (commit.step == context_.step()) {
    if (!prepared_ || commit.attempt != attempt_) return;  // our Prepared is repeated, and so is the Commit
    Publish(commit, now, out);
  }
  out->Send(context_.options.coordinator,
            Committed{context_.options.shard, context_.options.incarnation, context_.generation, commit.step});
}

void Shard::On(const Redo& redo, Instant now, Outbox* out) {
  if (!serving() || redo.generation != context_.generation || redo.step != context_.step() || !prepared_) return;
  if (!redo.trust_ratios.empty() && redo.trust_ratios.size() != context_.catalog->tensors().size()) return;
  if (redo.attempt > attempt_) {
    attempt_ = redo.attempt;
    clip_ = redo.clip;
    trust_ratios_ = redo.trust_ratios;
    context_.metrics->steps_redone.Add(1);
    TakeBackAhead();
    const std::vector<GroupRule> rules = Rules();
    for (std::size_t local = 0; local < context_.store->size(); ++local) {
      const std::uint64_t samples = progress_[local].staged.samples();
      if (samples == 0) continue;
      context_.store->PrepareAgain(local, rules, Scalars(context_.served.parameters.updates, samples),
                                   TrustSquaresOf(local));
    }
    prepared_backoff_.Restart();
  }
  prepared_backoff_.Sent(now);
  out->Send(context_.options.coordinator, MakePrepared());
  SendAhead(out);
}

}  // namespace capstan::server
