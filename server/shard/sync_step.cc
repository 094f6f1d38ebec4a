#include "server/shard/sync_step.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/wire/messages/commit.h"
#include "common/wire/messages/disagreement.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/staged.h"
#include "server/shard/acknowledgements.h"
#include "server/shard/check_message.h"
#include "update/update_scalars.h"

namespace capstan::server {

namespace {

std::string SlotsText(Node node) {
  return "slots [" + std::to_string(node.begin) + ", " + std::to_string(node.end) + ")";
}

// Why a push or an end of a slot is not taken: the sender's view of its slots may be older than the shard's, or newer.
std::string NotIts(Node node) { return SlotsText(node) + " are not all its sender's, as far as this shard knows"; }

}  // namespace

SyncStep::SyncStep(const ShardContext& shard, ServedStep* served, Acknowledgements* acknowledgements)
    : shard_(shard), served_(served), acknowledgements_(acknowledgements), backoff_(shard.options.shard) {}

void SyncStep::Reset() {
  blocks_.assign(shard_.stepped().size(), {});
  squares_ = SegmentSquares(shard_.stepped(), TakesTrustRatio(shard_.options.job.optimizer.kind));
  next_reports_ = {};
  BeginStep();
}

void SyncStep::Restart() {
  shard_.stepped().DropPrepared();
  next_reports_ = {};
  BeginStep();
  backoff_.Restart();
}

void SyncStep::BeginStep() {
  for (Contributions& block : blocks_) {
    block.staged.Clear();
    block.prepared = false;
  }
  complete_blocks_ = 0;
  hyper_parameters_.Clear();
  disagreeing_.clear();
  reports_ = std::exchange(next_reports_, {});
  attempt_ = {};
  prepared_ = false;
  acknowledgements_->BeginStep();
}

// ---- what workers send ---------------------------------------------------------------------------------------------

bool SyncStep::TakesLent(const Push& push) const {
  const auto index = shard_.index_of.find(push.block);
  if (index == shard_.index_of.end() || push.step != shard_.step() || push.samples == 0) return false;
  if (!shard_.tree().Has(push.node)) return false;
  const StagedBlock& staged = blocks_[index->second].staged;
  const std::vector<StagedInput> inputs = staged.InputsWith({push.node, push.samples}, shard_.tree());
  return !inputs.empty() && TakesChecks(inputs, shard_.tree().aggregation());
}

std::optional<std::size_t> SyncStep::Handle(PeerId from, const Push& push, const Slice& payload, Instant now,
                                            Outbox* out) {
  const std::size_t index = shard_.index_of.at(push.block);
  switch (AdmitPush(shard_.options.job.mode, push.step, shard_.step(), {})) {
    case PushAdmission::kPassed:
      shard_.metrics->pushes_duplicate.Add(1);
      acknowledgements_->AddPush(from, push.step, push.block, push.node);
      return {};
    case PushAdmission::kTooEarly:
      shard_.metrics->pushes_busy.Add(1);
      shard_.Refuse(from, Code::kBusy, "ahead of this shard", out, push.block);
      return {};
    default: break;
  }
  if (!Stage(from, push, payload, index, out)) return {};
  StagedBlock& staged = blocks_[index].staged;
  if (!staged.complete() || blocks_[index].prepared) return {};
  const bool is_done = shard_.stepped().is_prepared(index);  // by a payload that was lent
  if (!is_done) CAPSTAN_CHECK(Prepare(index, staged.Inputs()));
  staged.ReleasePayloads();
  MarkPrepared(index);
  ReportWhenComplete(now, out);
  return index;
}

// Returns whether the push is staged now or was before; if not, it is refused or beyond the credit.
bool SyncStep::Stage(PeerId from, const Push& push, const Slice& payload, std::size_t index, Outbox* out) {
  const auto refuse = [&](std::string why) {
    shard_.metrics->pushes_invalid.Add(1);
    shard_.Refuse(from, Code::kInvalid, std::move(why), out, push.block);
    return false;
  };
  acknowledgements_->NotePusher(from);
  const std::size_t position = blocks_.size() - 1 - index;
  if (position >= credit()) {
    shard_.metrics->pushes_busy.Add(1);
    acknowledgements_->For(from, push.step);  // acknowledges nothing but tells the credit; OfferCredit tells it again
    return false;
  }
  StagedBlock& staged = blocks_[index].staged;
  const bool covered = staged.Covers(push.node);
  if (!MayPush(*shard_.sessions.Find(push.session), push.node)) {
    if (covered) {  // nothing of it is missing, and what it says about others' slots does not count
      shard_.metrics->pushes_duplicate.Add(1);
      acknowledgements_->AddPush(from, push.step, push.block, push.node);
      return true;
    }
    shard_.metrics->pushes_busy.Add(1);
    shard_.Refuse(from, Code::kBusy, NotIts(push.node), out, push.block);
    return false;
  }
  const float loss_scale = served_->parameters.loss_scale;
  if (push.loss_scale != loss_scale) {
    return refuse("a push of loss scale " + std::to_string(push.loss_scale) + "; the step's is " +
                  std::to_string(loss_scale));
  }
  if (const Status same = hyper_parameters_.Compare(push); !same.ok()) {
    Disagree(hyper_parameters_.session(), push.session, push.step, same.message(), out);
    if (!covered) {
      shard_.metrics->pushes_busy.Add(1);
      shard_.Refuse(from, Code::kBusy, same.message(), out, push.block);
      return false;
    }
  }
  const bool is_first = hyper_parameters_.groups().empty();
  if (!covered) hyper_parameters_.Take(push);
  const bool is_lent = !covered && push.samples > 0 && !payload.owner;
  if (is_lent && !PrepareWith(push, payload, index)) {
    if (is_first) hyper_parameters_.Clear();  // only an undamaged push sets them
    shard_.Reject(from, DamagedPush(push), push.block, out);
    return false;
  }
  const StagedBlock::Added added =
      staged.Add({push.session, push.node, push.samples, push.payload_hash, is_lent ? Slice() : payload, push.encoding},
                 shard_.tree(), shard_.stepped().count(index), shard_.stepped().pool());
  if (added.outcome == StagedBlock::Outcome::kMismatch) {
    ++hash_mismatches_;
    shard_.metrics->hash_mismatches.Add(1);
    out->Log(Severity::kWarning, "two workers computed different gradients for block " + std::to_string(push.block) +
                                     " at step " + std::to_string(push.step.value) + "; that of " +
                                     shard_.sessions.NameOf(added.first) + " is kept, which came before that of " +
                                     shard_.sessions.NameOf(push.session));
  }
  if (added.outcome == StagedBlock::Outcome::kDisagrees) {
    Disagree(added.first, push.session, push.step,
             "step " + std::to_string(push.step.value) + ": " + SlotsText(push.node) + " came with " +
                 std::to_string(added.had) + " samples before and with " + std::to_string(push.samples) +
                 " now; workers disagree about the data",
             out);
  }
  const bool is_new = added.outcome == StagedBlock::Outcome::kStaged;
  (is_new ? shard_.metrics->pushes_staged : shard_.metrics->pushes_duplicate).Add(1);
  acknowledgements_->AddPush(from, push.step, push.block, push.node);
  return true;
}

void SyncStep::Handle(PeerId from, const EndSlot& end, Instant now, Outbox* out) {
  if (end.step > shard_.step().Next()) return shard_.Refuse(from, Code::kBusy, "ahead of this shard", out);
  // The worker may have seen the next version on other shards before this shard's Commit has arrived. An EndSlot of the
  // next step is kept until then.
  const bool is_next = end.step == shard_.step().Next();
  if (is_next || end.step == shard_.step()) {
    Reports& reports = is_next ? next_reports_ : reports_;
    const bool is_first = !reports.slots.contains(end.report.slot);
    const Node leaf{end.report.slot, end.report.slot + 1};
    if (MayPush(*shard_.sessions.Find(end.session), leaf)) {
      const Status same_state = reports.program_state.Compare(end), same_clipping = reports.clipping.Compare(end);
      if (!same_state.ok()) Disagree(reports.program_state.session(), end.session, end.step, same_state.message(), out);
      if (!same_clipping.ok())
        Disagree(reports.clipping.session(), end.session, end.step, same_clipping.message(), out);
      if (is_first && !TakeReport(from, end, same_state.ok() ? same_clipping : same_state, &reports, out)) return;
    } else if (is_first) {
      return shard_.Refuse(from, Code::kBusy, NotIts(leaf), out);
    }
  }
  acknowledgements_->For(from, end.step).ended.push_back(end.report.slot);
  if (end.step == shard_.step()) ReportWhenComplete(now, out);
}

// Takes the first report of a slot. `same`: whether it agrees with the reports before it. If the report is refused,
// answers an Error and returns false.
bool SyncStep::TakeReport(PeerId from, const EndSlot& end, const Status& same, Reports* reports, Outbox* out) {
  const auto refuse = [&](Code code, std::string why) {
    shard_.Refuse(from, code, std::move(why), out);
    return false;
  };
  if (const Status status = StepProgramState::Check(end); !status.ok()) return refuse(status.code(), status.message());
  if (!same.ok()) return refuse(Code::kBusy, same.message());
  reports->slots.emplace(end.report.slot, end.report);
  reports->program_state.Take(end);
  reports->clipping.Take(end);
  return true;
}

// Reports to the coordinator, once in a step, that `second` contradicts `first`, whose word counts.
void SyncStep::Disagree(SessionId first, SessionId second, Step step, const std::string& what, Outbox* out) {
  if (!disagreeing_.emplace(first, second).second) return;
  const ShardOptions& options = shard_.options;
  out->Send(options.coordinator,
            Disagreement{options.shard, options.incarnation, shard_.generation, step, first, second, what});
  out->Log(Severity::kWarning, shard_.name() + ": " + shard_.sessions.NameOf(second) + " disagrees with " +
                                   (first.value == 0 ? "workers before it" : shard_.sessions.NameOf(first)) + ": " +
                                   what);
}

// Returns true for every push of a step that is over, because the acknowledgement says that nothing of it is missing.
bool SyncStep::Holds(std::size_t index, Step step, Node node) const {
  if (step != shard_.step()) return step < shard_.step();
  const std::vector<Node> staged = blocks_[index].staged.nodes();
  return std::any_of(staged.begin(), staged.end(), [&](Node other) { return other.Contains(node); });
}

bool SyncStep::Handle(PeerId from, const CoverageQuery& query, Outbox* out) {
  if (query.step > shard_.step()) {
    shard_.Refuse(from, Code::kBusy, "ahead of this shard", out);
    return false;
  }
  Staged& ack = acknowledgements_->For(from, query.step);
  ack.full = true;
  ack.nodes.clear();
  ack.ended.clear();
  return true;
}

void SyncStep::Acknowledge(Outbox* out) {
  acknowledgements_->EachFull([this](Step step, Staged* ack) {
    if (step < shard_.step()) return;  // `passed` acknowledges all of that step
    for (std::size_t index = 0; index < blocks_.size(); ++index) {
      for (Node node : blocks_[index].staged.nodes()) ack->nodes.push_back({shard_.stepped().blocks()[index], node});
    }
    for (const auto& [slot, report] : reports_.slots) ack->ended.push_back(slot);
  });
  acknowledgements_->Send(shard_, credit(), true, out);
}

// ---- credit, and preparing blocks ----------------------------------------------------------------------------------

std::uint32_t SyncStep::credit() const {
  return static_cast<std::uint32_t>(std::min(complete_blocks_ + shard_.options.window_blocks, blocks_.size()));
}

void SyncStep::MarkPrepared(std::size_t index) {
  blocks_[index].prepared = true;
  const std::size_t before = complete_blocks_;
  const std::size_t count = blocks_.size();
  while (complete_blocks_ < count && blocks_[count - 1 - complete_blocks_].prepared) ++complete_blocks_;
  if (complete_blocks_ != before) acknowledgements_->OfferCredit(shard_.step(), credit());
}

bool SyncStep::Prepare(std::size_t index, std::span<const StagedInput> inputs) {
  std::uint64_t samples = 0;
  for (const StagedInput& input : inputs) samples += input.samples;
  if (samples == 0) return squares_.Clear(index), true;
  if (!shard_.stepped().Prepare(index, inputs, shard_.tree(), Rules(), Scalars(samples), squares_.GradientOf(index),
                                squares_.TrustOf(index), speculation().has_value()))
    return false;
  shard_.metrics->updates_applied.Add(1);
  return true;
}

bool SyncStep::PrepareWith(const Push& push, const Slice& lent, std::size_t index) {
  CheckedRead check{push.payload_hash, {}};
  const StagedInput last{push.node, push.samples, lent.data, push.encoding, &check};
  const std::vector<StagedInput> inputs = blocks_[index].staged.InputsWith(last, shard_.tree());
  CAPSTAN_CHECK(!inputs.empty());
  return Prepare(index, inputs);
}

UpdateScalars SyncStep::Scalars(std::uint64_t samples) const {
  UpdateScalars scalars = MakeUpdateScalars(shard_.tree().aggregation(), served_->parameters.updates, samples,
                                            served_->parameters.loss_scale);
  scalars.clip = attempt_.clip;
  scalars.clip_value = attempt_.clip_value;
  scalars.trust_ratios = attempt_.trust_ratios;
  return scalars;
}

std::vector<GroupRule> SyncStep::Rules() const {
  return MakeGroupRules(shard_.options.job.optimizer, served_->parameters.learning_rate, hyper_parameters_.groups());
}

std::uint64_t SyncStep::staged_bytes() const {
  std::uint64_t bytes = 0;
  for (const Contributions& block : blocks_) bytes += block.staged.payload_bytes();
  return bytes;
}

bool SyncStep::IsPrepared(std::size_t index) const {
  return blocks_[index].prepared && shard_.stepped().is_prepared(index);
}

// ---- reports to the coordinator, and its decisions -----------------------------------------------------------------

void SyncStep::ReportWhenComplete(Instant now, Outbox* out) {
  if (prepared_ || served_->parameters.stop || !AreBlocksComplete()) return;
  if (reports_.slots.size() < shard_.home_slot_count()) return;
  prepared_ = true;
  backoff_.Restart();
  SendPrepared(now, out);
}

void SyncStep::SendPrepared(Instant now, Outbox* out) {
  backoff_.Sent(now);
  out->Send(shard_.options.coordinator, MakePrepared());
}

void SyncStep::Tick(Instant now, Outbox* out) {
  if (prepared_ && backoff_.Due(now)) SendPrepared(now, out);
}

Prepared SyncStep::MakePrepared() const {
  const ShardOptions& options = shard_.options;
  Prepared message{options.shard, options.incarnation, shard_.generation, shard_.step(), attempt_.number, {}};
  message.report.segment_squares = squares_.gradient();
  message.report.weight_squares = squares_.weights();
  message.report.direction_squares = squares_.direction();
  for (const auto& [slot, report] : reports_.slots) message.report.slots.push_back(report);
  AddSamples(&message.report.block_samples);
  message.report.hyper_hash = hyper_parameters_.hash();
  if (!hyper_parameters_.groups().empty()) {
    message.report.learning_rate = hyper_parameters_.groups().front().learning_rate;
  }
  message.report.program_state = reports_.program_state.state();
  message.report.program_slot = reports_.program_state.slot();
  return message;
}

void SyncStep::AddSamples(std::vector<std::uint64_t>* samples) const {
  for (const Contributions& block : blocks_) samples->push_back(block.staged.samples());
}

void SyncStep::Describe(Hello* hello) const {
  if (prepared_) hello->prepared = MakePrepared();
}

StepEngine::CommitOutcome SyncStep::Handle(const Commit& commit) {
  if (commit.step > shard_.step()) {
    return CommitOutcome::kIgnored;  // impossible: a Commit needs all shards to have prepared the step
  }
  if (commit.step < shard_.step()) return CommitOutcome::kRepeated;
  // A Commit for another attempt than the prepared one is ignored. The coordinator repeats it until the shard has
  // answered.
  if (!prepared_ || commit.attempt != attempt_.number) return CommitOutcome::kIgnored;
  Publish(commit);
  return CommitOutcome::kPublished;
}

void SyncStep::Publish(const Commit& commit) {
  PublishBlocks(commit.action);
  const bool applied = commit.action == StepAction::kApply;
  (applied ? shard_.metrics->steps_applied : shard_.metrics->steps_skipped).Add(1);
  served_->Serve(served_->version.Next(), commit.next);
  served_->last_commit = std::make_unique<const Commit>(commit);
  BeginStep();
  shard_.metrics->version.Set(static_cast<double>(served_->version.value));
}

void SyncStep::PublishBlocks(StepAction action) {
  if (action == StepAction::kApply) {
    shard_.stepped().PublishPrepared();
  } else {
    shard_.stepped().DropPrepared();
  }
}

StepEngine::RedoOutcome SyncStep::Handle(const Redo& redo, Instant now, Outbox* out) {
  if (redo.step != shard_.step() || !prepared_) return RedoOutcome::kIgnored;
  if (!redo.trust_ratios.empty() && redo.trust_ratios.size() != shard_.catalog->tensors().size()) {
    return RedoOutcome::kIgnored;
  }
  const bool is_new = redo.attempt > attempt_.number;
  if (is_new) {
    attempt_ = {redo.attempt, redo.clip, redo.trust_ratios, redo.clip_value};
    shard_.metrics->steps_redone.Add(1);
    const std::vector<GroupRule> rules = Rules();
    for (std::size_t index = 0; index < blocks_.size(); ++index) {
      const std::uint64_t samples = blocks_[index].staged.samples();
      if (samples == 0) continue;
      shard_.stepped().PrepareAgain(index, rules, Scalars(samples), squares_.TrustOf(index), speculation().has_value());
    }
    backoff_.Restart();
  }
  SendPrepared(now, out);
  return is_new ? RedoOutcome::kRedone : RedoOutcome::kRepeated;
}

// ---- what pulls get ------------------------------------------------------------------------------------------------

PullAdmission SyncStep::Admit(const Pull& pull) const {
  return AdmitPull(shard_.options.job.mode, pull.version, served_->version, 0);
}

StepEngine::BlockVersion SyncStep::VersionOf(std::size_t, std::uint32_t) const {
  return {served_->blocks.version, served_->blocks.updates};
}

// Returns this attempt if it is likely to be published, without a Redo. With trust ratios the first attempt never is. A
// job that clipped the last step's gradient probably clips this one's too.
std::optional<StepEngine::Speculation> SyncStep::speculation() const {
  const bool likely = TakesTrustRatio(shard_.options.job.optimizer.kind)
                          ? !attempt_.trust_ratios.empty()
                          : attempt_.number > 0 || !served_->last_commit || served_->last_commit->attempt == 0;
  if (!likely) return std::nullopt;
  return Speculation{served_->version.Next(), attempt_.number};
}

}  // namespace capstan::server
