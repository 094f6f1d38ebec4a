// How a shard counts pushes without global steps: in order for each slot; and what it reports to the coordinator.
#include <algorithm>
#include <utility>

#include "common/data/encoding.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/staged.h"
#include "server/shard/shard.h"
#include "server/shard/snapshot_load.h"

namespace capstan::server {

PushRecord Shard::RecordOf(const Push& push, const Slice& payload) const {
  return {push.block,      push.node.begin,   push.step.value, push.samples, context_.served.parameters.learning_rate,
          push.loss_scale, push.payload_hash, payload,         push.hyper};
}

void Shard::ApplyPush(const PushRecord& push) {
  const std::size_t local = context_.local_of[push.block];
  BlockProgress& block = progress_[local];
  if (push.samples > 0) {
    std::vector<double> squares(context_.store->segment_count(local));
    const StagedInput input{Node{0, 1}, push.samples, push.payload.data, context_.store->encoding(local)};
    context_.store->ApplyNow(local, input, MakeGroupRules(context_.options.optimizer, push.learning_rate, push.hyper),
                             Scalars(block.updates, push.samples, push.loss_scale), squares);
    ++block.updates;
    context_.metrics->updates_applied.Add(1);
  }
  const std::uint64_t before = std::exchange(block.last[push.slot], push.sequence);
  block.newest = std::max(block.newest, push.sequence);
  RaiseClock(push.slot, before);
  progress_changed_ = true;
  context_.metrics->pushes_staged.Add(1);
  context_.metrics->staleness_steps.Observe(static_cast<double>(block.newest - push.sequence));
}

void Shard::ApplyEnd(const EndRecord& end) {
  ended_[end.report.slot] = end.step.value;
  SetClock(end.report.slot);
  KeepReport(end.step, end.report);
  progress_changed_ = true;
}

// Slots may be any number of steps apart, and the coordinator counts steps in order. So the newest report is needed
// last: when there are too many, it is dropped, and its step is counted without it.
void Shard::KeepReport(Step step, const SlotReport& report) {
  async_reports_.try_emplace({step.value, report.slot}, report);
  if (async_reports_.size() <= std::max(context_.options.reports_max, context_.home_slot_count())) return;
  async_reports_.erase(std::prev(async_reports_.end()));
  context_.metrics->reports_dropped.Add(1);
}

void Shard::EndAsync(PeerId from, const EndSlot& end, Outbox* out) {
  const SlotIndex slot = end.report.slot;
  const std::uint64_t last = journal_ ? journal_->NewestEnd(slot).value_or(ended_[slot]) : ended_[slot];
  if (end.step.value > last + 1) return;                                         // the one before it comes again
  if (end.step.value > least_of_blocks_[slot].number + kRoundsAheadMax) return;  // its pushes are applied first
  const EndRecord record{end.step, end.report};
  if (end.step.value == last + 1) {
    if (journal_) return journal_->Add(from, record, out);
    ApplyEnd(record);
  }
  if (end.step.value <= ended_[slot]) acknowledgements_.For(from, end.step).ended.push_back(slot);
}

// The least sequence number of a slot over all blocks. Without blocks: the greatest possible number.
void Shard::CountBlocks(SlotIndex slot) {
  LeastOfBlocks least{UINT64_MAX - kRoundsAheadMax, 0};
  for (const BlockProgress& block : progress_) {
    if (block.last[slot] < least.number) least = {block.last[slot], 0};
    least.blocks += block.last[slot] == least.number ? 1 : 0;
  }
  least_of_blocks_[slot] = least;
}

void Shard::CountClocks() {
  least_of_blocks_.assign(context_.slot_count, {});
  slot_clocks_ = RunningMinimum(std::vector<std::uint64_t>(context_.slot_count));
  for (SlotIndex slot = 0; slot < context_.slot_count; ++slot) {
    CountBlocks(slot);
    SetClock(slot);
  }
  for (BlockProgress& block : progress_) {
    for (const std::uint64_t number : block.last) block.newest = std::max(block.newest, number);
  }
}

void Shard::RaiseClock(SlotIndex slot, std::uint64_t before) {
  if (before != least_of_blocks_[slot].number || --least_of_blocks_[slot].blocks > 0) return;
  CountBlocks(slot);
  SetClock(slot);
}

void Shard::SetClock(SlotIndex slot) {
  const std::uint64_t clock = least_of_blocks_[slot].number;
  slot_clocks_.Set(slot, context_.IsHome(slot) ? std::min(clock, ended_[slot]) : clock);
}

Progress Shard::MakeProgress() const {
  Progress progress{context_.options.shard, context_.options.incarnation, context_.generation, SlotClocks(), {}};
  // The clock waits for the oldest reports. All reports of one step always fit.
  const std::size_t most = std::max(Progress::kReportsMax, context_.home_slot_count());
  for (const auto& [key, report] : async_reports_) {
    if (progress.reports.size() == most) break;
    progress.reports.push_back({Step{key.first}, report});
  }
  return progress;
}

void Shard::On(const Rates& rates) {
  if (!serving() || rates.generation != context_.generation || rates.step.value < context_.served.version.value)
    return;  // late
  context_.served.parameters = rates.parameters;
  std::erase_if(async_reports_, [&](const auto& entry) { return entry.first.first <= rates.step.value; });
  context_.served.version = Version{rates.step.value};
  context_.metrics->version.Set(static_cast<double>(context_.served.version.value));
}

// ---- what came of the log's work ------------------------------------------------------------------------------------

Status Shard::CheckReplay(const PushRecord& push) const {
  const auto local = context_.local_of.find(push.block);
  const bool fits =
      local != context_.local_of.end() && push.slot < context_.slot_count &&
      push.payload.size == (push.samples == 0 ? 0
                                              : context_.store->count(local->second) *
                                                    BytesPerNumber(context_.store->encoding(local->second)));
  if (fits && push.hyper.size() != context_.catalog->group_count()) {
    return Corrupt("a record of the log has hyper-parameters of " + std::to_string(push.hyper.size()) +
                   " groups, the job's tensors are of " + std::to_string(context_.catalog->group_count()));
  }
  if (fits) return {};
  return Corrupt("a record of the log is of block " + std::to_string(push.block) + " and slot " +
                 std::to_string(push.slot) + ", which do not belong here");
}

// Skips records that are already applied.
Status Shard::ReplayRecord(const PushLogRecord& record) {
  const auto* push = std::get_if<PushRecord>(&record);
  const auto* end = std::get_if<EndRecord>(&record);
  if (push != nullptr) CAPSTAN_RETURN_IF_ERROR(CheckReplay(*push));
  if (end != nullptr && (end->report.slot >= context_.slot_count ||
                         end->report.slot % context_.options.shard_count != context_.options.shard)) {
    return Corrupt("a record of the log is of slot " + std::to_string(end->report.slot) + ", which does not end here");
  }
  const std::uint64_t last =
      push != nullptr ? progress_[context_.local_of[push->block]].last[push->slot] : ended_[end->report.slot];
  const std::uint64_t sequence = push != nullptr ? push->sequence : end->step.value;
  if (sequence <= last) return {};
  if (sequence > last + 1) {
    return Corrupt("a record of the log has sequence number " + std::to_string(sequence) + " after " +
                   std::to_string(last));
  }
  if (push != nullptr) {
    ApplyPush(*push);
  } else {
    ApplyEnd(*end);
  }
  return {};
}

void Shard::On(const LogAppended& result, Instant now, Outbox* out) {
  const LogQueue::Appended appended = journal_->Handle(result, now, out);
  for (std::size_t i = 0; i < appended.senders.size(); ++i) {
    const PushLogRecord& record = (*appended.records)[i];
    const PeerId sender = appended.senders[i];
    if (const auto* push = std::get_if<PushRecord>(&record)) {
      ApplyPush(*push);
      if (sender.value == 0) continue;
      acknowledgements_.AddPush(sender, Step{push->sequence}, push->block, {push->slot, push->slot + 1});
    } else {
      const auto& end = std::get<EndRecord>(record);
      ApplyEnd(end);
      if (sender.value != 0) acknowledgements_.For(sender, end.step).ended.push_back(end.report.slot);
    }
  }
}

void Shard::On(LogRead result, Instant now, Outbox* out) {
  if (!load_ || !loaded_ || !journal_->Expects(result)) return;
  Status status = std::move(result.status);
  for (const PushLogRecord& record : result.piece.records) {
    if (status.ok()) status = ReplayRecord(record);
  }
  if (!status.ok()) return FailReset(status.message(), out);
  if (journal_->Replayed(result.piece, out)) FinishReset(now, out);
}

void Shard::Handle(LogResult result, Instant now, Outbox* out) {
  if (!journal_) return;  // it asked for nothing
  if (const auto* begun = std::get_if<LogBegun>(&result)) {
    if (journal_->Handle(*begun, out)) FinishReset(now, out);
  } else if (const auto* appended = std::get_if<LogAppended>(&result)) {
    On(*appended, now, out);
  } else if (auto* read = std::get_if<LogRead>(&result)) {
    On(std::move(*read), now, out);
  } else {
    journal_->Handle(std::get<LogTrimmed>(result), out);
  }
}

}  // namespace capstan::server
