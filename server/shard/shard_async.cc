// How a shard counts pushes without global steps: in order for each slot; and what it reports to the coordinator.
#include <algorithm>
#include <utility>

#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/staged.h"
#include "server/shard/shard.h"

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
  const std::uint64_t last = log_queue_.NewestEnd(slot).value_or(ended_[slot]);
  if (end.step.value > last + 1) return;                                         // the one before it comes again
  if (end.step.value > least_of_blocks_[slot].number + kRoundsAheadMax) return;  // its pushes are applied first
  const EndRecord record{end.step, end.report};
  if (end.step.value == last + 1) {
    if (context_.durable()) return Log(from, record, out);
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

}  // namespace capstan::server
