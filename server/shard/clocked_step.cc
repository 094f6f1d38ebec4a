#include "server/shard/clocked_step.h"

#include <algorithm>
#include <string>

#include "common/data/encoding.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/staged.h"
#include "server/shard/acknowledgements.h"
#include "server/shard/check_message.h"
#include "server/shard/push_journal.h"
#include "server/shard/shard_memory.h"
#include "update/update_scalars.h"

namespace capstan::server {

namespace {

// Why a push or an end is not taken: the sender's view of its slots may be older than the shard's, or newer.
std::string NotIts(SlotIndex slot) {
  return "slot " + std::to_string(slot) + " is not its sender's, as far as this shard knows";
}

}  // namespace

ClockedStep::ClockedStep(const ShardContext& shard, ServedStep* served, Acknowledgements* acknowledgements,
                         PushJournal* journal)
    : shard_(shard),
      served_(served),
      acknowledgements_(acknowledgements),
      journal_(journal),
      backoff_(shard.options.shard) {}

void ClockedStep::Reset() {
  blocks_.assign(shard_.store->size(), {std::vector<SequenceNumber>(shard_.slot_count), {}, 0});
  reports_.clear();
  ended_.assign(shard_.slot_count, {});
  CountClocks();
  changed_ = true;
}

void ClockedStep::Restart() {
  changed_ = true;
  backoff_.Restart();
}

// Takes each block's sequence numbers from its header entry. Another number of shards may have written the snapshot: a
// slot's reports and its newest end are in the header of the shard that was the slot's home then.
void ClockedStep::Load(const std::vector<const SnapshotHeader::BlockEntry*>& blocks,
                       const std::vector<SnapshotHeader>& headers) {
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    if (blocks[index] == nullptr) continue;
    blocks_[index].updates = blocks[index]->updates;
    if (!blocks[index]->last.empty()) blocks_[index].last = blocks[index]->last;
  }
  for (const SnapshotHeader& header : headers) {
    for (SlotIndex slot = header.part; slot < header.ended.size(); slot += header.part_count) {
      if (shard_.IsHome(slot)) ended_[slot] = header.ended[slot];
    }
    for (const StepReport& entry : header.reports) {
      if (shard_.IsHome(entry.report.slot)) KeepReport(entry.sequence, entry.report);
    }
  }
  CountClocks();
}

void ClockedStep::Describe(SnapshotHeader* header) const {
  header->ended = ended_;
  for (const auto& [key, report] : reports_) header->reports.push_back({key.first, report});
  for (std::size_t index = 0; index < blocks_.size(); ++index) {
    header->blocks[index].updates = blocks_[index].updates;
    header->blocks[index].last = blocks_[index].last;
  }
}

// ---- what workers send ---------------------------------------------------------------------------------------------

// An array that is updated from a lent payload is written elsewhere. For the weights that is usual, because they are
// being sent; for optimizer states it would cost more than a copy of the payload.
bool ClockedStep::TakesLent(const Push& push) const {
  return journal_ == nullptr && shard_.store->array_count() == 1 && push.samples > 0;
}

std::optional<std::size_t> ClockedStep::Handle(PeerId from, const Push& push, const Slice& payload, Instant,
                                               Outbox* out) {
  const SlotIndex slot = push.node.begin;
  const SequenceNumber sequence = SequenceOf(push.step);
  SequenceNumber last = blocks_[shard_.index_of.at(push.block)].last[slot];
  if (journal_ != nullptr) {
    // If the push waits for the log already, it is acknowledged once it is logged.
    if (journal_->Has(sequence, push.block, slot) && sequence > last) return {};
    last = journal_->NewestPush(push.block, slot).value_or(last);
  }
  const PushAdmission admission = AdmitPush(shard_.options.job.mode, push.step, shard_.step(), last);
  if (admission != PushAdmission::kPassed && !MayPush(*shard_.sessions.Find(push.session), push.node)) {
    shard_.metrics->pushes_busy.Add(1);
    shard_.Refuse(from, Code::kBusy, NotIts(slot), out, push.block);
    return {};
  }
  switch (admission) {
    case PushAdmission::kApply:
      if (journal_ != nullptr) {
        journal_->Add(from, RecordOf(push, payload), out);
        return {};
      }
      if (!ApplyNew(push, payload)) return shard_.Reject(from, DamagedPush(push), push.block, out), std::nullopt;
      break;
    case PushAdmission::kGap:
      shard_.metrics->pushes_invalid.Add(1);
      shard_.Refuse(from, Code::kInvalid, "a sequence number is missing", out, push.block, last);
      return {};
    default: shard_.metrics->pushes_duplicate.Add(1); break;
  }
  acknowledgements_->AddPush(from, push.step, push.block, push.node);
  return {};
}

bool ClockedStep::ApplyNew(const Push& push, const Slice& payload) {
  if (payload.owner) return Apply(RecordOf(push, payload));
  CheckedRead check{push.payload_hash, {}};
  return Apply(RecordOf(push, payload), &check);
}

PushRecord ClockedStep::RecordOf(const Push& push, const Slice& payload) const {
  return {push.block,
          push.node.begin,
          SequenceOf(push.step),
          push.samples,
          served_->parameters.learning_rate,
          push.loss_scale,
          push.payload_hash,
          payload,
          push.hyper};
}

void ClockedStep::Handle(PeerId from, const EndSlot& end, Instant, Outbox* out) {
  const SlotIndex slot = end.report.slot;
  const SequenceNumber sequence = SequenceOf(end.step);
  SequenceNumber last = ended_[slot];
  if (journal_ != nullptr) last = journal_->NewestEnd(slot).value_or(last);
  if (sequence > last.Next()) return;  // the previous one is sent again first
  if (sequence == last.Next() && !MayPush(*shard_.sessions.Find(end.session), {slot, slot + 1})) {
    return shard_.Refuse(from, Code::kBusy, NotIts(slot), out);
  }
  if (sequence.value > least_of_blocks_[slot].number.value + kEarlyEndsMax) return;  // its pushes must be applied first
  if (sequence == last.Next()) {
    const EndRecord record{sequence, end.report};
    if (journal_ != nullptr) return journal_->Add(from, record, out);
    Apply(record);
  }
  if (sequence <= ended_[slot]) acknowledgements_->For(from, end.step).ended.push_back(slot);
}

bool ClockedStep::Holds(std::size_t index, Step step, Node node) const {
  return SequenceOf(step) <= blocks_[index].last[node.begin];
}

bool ClockedStep::Handle(PeerId from, const CoverageQuery& query, Outbox*) {
  Staged& ack = acknowledgements_->For(from, query.step);
  ack.full = true;
  ack.nodes.clear();
  ack.ended.clear();
  return true;  // the clocks may give it a slot that is further behind, so its next pull may be of an older version
}

void ClockedStep::Acknowledge(Outbox* out) {
  acknowledgements_->EachFull([this](Step, Staged* ack) { ack->clocks = clocks_.values(); });
  acknowledgements_->Send(shard_, AsyncCredit(shard_.options, shard_.slot_count), false, out);
}

// ---- applying pushes and ends of slots -----------------------------------------------------------------------------

bool ClockedStep::Apply(const PushRecord& push, CheckedRead* check) {
  const std::size_t index = shard_.index_of.at(push.block);
  BlockStore& store = *shard_.store;
  BlockProgress& block = blocks_[index];
  if (push.samples > 0) {
    std::vector<double> squares(store.segment_count(index));
    const StagedInput input{Node{0, 1}, push.samples, push.payload.data, store.encoding(index), check};
    if (!store.ApplyNow(index, input, MakeGroupRules(shard_.options.job.optimizer, push.learning_rate, push.hyper),
                        MakeUpdateScalars(shard_.tree().aggregation(), block.updates, push.samples, push.loss_scale),
                        squares))
      return false;
    ++block.updates;
    shard_.metrics->updates_applied.Add(1);
  }
  const SequenceNumber before = std::exchange(block.last[push.slot], push.sequence);
  block.newest = std::max(block.newest, push.sequence);
  RaiseClock(push.slot, before);
  changed_ = true;
  shard_.metrics->pushes_staged.Add(1);
  shard_.metrics->staleness_steps.Observe(static_cast<double>(block.newest.value - push.sequence.value));
  return true;
}

void ClockedStep::Apply(const EndRecord& end) {
  ended_[end.report.slot] = end.sequence;
  SetClock(end.report.slot);
  KeepReport(end.sequence, end.report);
  changed_ = true;
}

void ClockedStep::Apply(const LogQueue::Appended& logged) {
  for (std::size_t i = 0; i < logged.senders.size(); ++i) {
    const PushLogRecord& record = (*logged.records)[i];
    const PeerId sender = logged.senders[i];
    const bool waits = sender.value != 0;
    if (const auto* push = std::get_if<PushRecord>(&record)) {
      Apply(*push);
      const Node leaf{push->slot, push->slot + 1};
      if (waits) acknowledgements_->AddPush(sender, StepOf(push->sequence), push->block, leaf);
    } else {
      const auto& end = std::get<EndRecord>(record);
      Apply(end);
      if (waits) acknowledgements_->For(sender, StepOf(end.sequence)).ended.push_back(end.report.slot);
    }
  }
}

Status ClockedStep::CheckReplay(const PushRecord& push) const {
  const auto index = shard_.index_of.find(push.block);
  const BlockStore& store = *shard_.store;
  const bool fits =
      index != shard_.index_of.end() && push.slot < shard_.slot_count &&
      push.payload.size ==
          (push.samples == 0 ? 0 : store.count(index->second) * BytesPerNumber(store.encoding(index->second)));
  if (fits && push.hyper.size() != shard_.catalog->group_count()) {
    return Corrupt("a record of the log has hyper-parameters of " + std::to_string(push.hyper.size()) +
                   " groups, the job's tensors are of " + std::to_string(shard_.catalog->group_count()));
  }
  if (fits) return {};
  return Corrupt("a record of the log is of block " + std::to_string(push.block) + " and slot " +
                 std::to_string(push.slot) + ", which do not belong here");
}

Status ClockedStep::Replay(const PushLogRecord& record) {
  const auto* push = std::get_if<PushRecord>(&record);
  const auto* end = std::get_if<EndRecord>(&record);
  if (push != nullptr) CAPSTAN_RETURN_IF_ERROR(CheckReplay(*push));
  if (end != nullptr && (end->report.slot >= shard_.slot_count || !shard_.IsHome(end->report.slot))) {
    return Corrupt("a record of the log is of slot " + std::to_string(end->report.slot) + ", which does not end here");
  }
  const SequenceNumber last =
      push != nullptr ? blocks_[shard_.index_of.at(push->block)].last[push->slot] : ended_[end->report.slot];
  const SequenceNumber sequence = push != nullptr ? push->sequence : end->sequence;
  if (sequence <= last) return {};
  if (sequence > last.Next()) {
    return Corrupt("a record of the log has sequence number " + std::to_string(sequence.value) + " after " +
                   std::to_string(last.value));
  }
  if (push != nullptr) {
    Apply(*push);
  } else {
    Apply(*end);
  }
  return {};
}

// ---- clocks and reports --------------------------------------------------------------------------------------------

// Keeps a report until the coordinator has counted its step. Slots may be any number of steps apart, so reports can
// pile up. If there are too many, the one with the greatest sequence number is dropped, because the coordinator counts
// steps in order and would need it last.
void ClockedStep::KeepReport(SequenceNumber sequence, const SlotReport& report) {
  reports_.try_emplace({sequence, report.slot}, report);
  if (reports_.size() <= std::max(shard_.options.reports_max, shard_.home_slot_count())) return;
  reports_.erase(std::prev(reports_.end()));
  shard_.metrics->reports_dropped.Add(1);
}

// Finds the least sequence number of a slot over all blocks. A shard without blocks gets a number that limits nothing;
// Handle(EndSlot) can add kEarlyEndsMax to it without overflow.
void ClockedStep::CountBlocks(SlotIndex slot) {
  LeastOfBlocks least{{UINT64_MAX - kEarlyEndsMax}, 0};
  for (const BlockProgress& block : blocks_) {
    if (block.last[slot] < least.number) least = {block.last[slot], 0};
    least.blocks += block.last[slot] == least.number ? 1 : 0;
  }
  least_of_blocks_[slot] = least;
}

void ClockedStep::CountClocks() {
  least_of_blocks_.assign(shard_.slot_count, {});
  clocks_ = RunningMinimum(std::vector<SequenceNumber>(shard_.slot_count));
  for (SlotIndex slot = 0; slot < shard_.slot_count; ++slot) {
    CountBlocks(slot);
    SetClock(slot);
  }
  for (BlockProgress& block : blocks_) {
    for (const SequenceNumber number : block.last) block.newest = std::max(block.newest, number);
  }
}

void ClockedStep::RaiseClock(SlotIndex slot, SequenceNumber before) {
  if (before != least_of_blocks_[slot].number || --least_of_blocks_[slot].blocks > 0) return;
  CountBlocks(slot);
  SetClock(slot);
}

void ClockedStep::SetClock(SlotIndex slot) {
  const SequenceNumber clock = least_of_blocks_[slot].number;
  clocks_.Set(slot, shard_.IsHome(slot) ? std::min(clock, ended_[slot]) : clock);
}

Progress ClockedStep::MakeProgress() const {
  const ShardOptions& options = shard_.options;
  Progress progress{options.shard, options.incarnation, shard_.generation, clocks_.values(), {}};
  // The oldest reports go first, because the coordinator counts steps in order. All reports of one step always fit.
  const std::size_t most = std::max(Progress::kReportsMax, shard_.home_slot_count());
  for (const auto& [key, report] : reports_) {
    if (progress.reports.size() == most) break;
    progress.reports.push_back({key.first, report});
  }
  return progress;
}

void ClockedStep::Tick(Instant now, Outbox* out) {
  if ((!changed_ && !backoff_.Due(now)) || now < next_progress_) return;
  changed_ = false;
  next_progress_ = now + kProgressEvery;
  backoff_.Sent(now);
  out->Send(shard_.options.coordinator, MakeProgress());
}

void ClockedStep::Handle(const ClockUpdate& update) {
  const Version version = VersionAt(update.clock);
  if (version < served_->version) return;  // late
  served_->Serve(version, update.parameters);
  std::erase_if(reports_, [&](const auto& entry) { return entry.first.first <= update.clock; });
  shard_.metrics->version.Set(static_cast<double>(served_->version.value));
}

// ---- what pulls get ------------------------------------------------------------------------------------------------

// In mode bounded, a pull waits until the slowest slot is at most `staleness` pushes behind the asking slot.
PullAdmission ClockedStep::Admit(const Pull& pull) const {
  return AdmitPull(shard_.options.job.mode, pull.version, VersionAt(clocks_.least()), shard_.options.job.staleness);
}

StepEngine::BlockVersion ClockedStep::VersionOf(std::size_t index, std::uint32_t) const {
  return {Version{blocks_[index].updates}, blocks_[index].updates};
}

}  // namespace capstan::server
