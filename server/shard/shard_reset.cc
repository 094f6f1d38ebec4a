// How a shard begins a generation: its catalog, its blocks, the source of their contents, and what it forgets of
// earlier steps.
#include "common/data/encoding.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/staged.h"
#include "server/shard/parked_pull.h"
#include "server/shard/shard.h"
#include "server/shard/shard_memory.h"
#include "server/shard/snapshot_load.h"

namespace capstan::server {

void Shard::On(const Reset& reset, Instant now, Outbox* out) {
  if (reset.incarnation != context_.options.incarnation || reset.generation < context_.generation) return;
  if (reset.generation == context_.generation &&
      load_) {  // under way; a shard that has the blocks may have a new address
    load_->Redirect(reset.sources);
    return;
  }
  if (reset.generation == context_.generation && serving()) {
    if (!going_on_) SendResetDone(out);
    return;
  }
  if (GoesOn(reset)) return GoOn(reset);
  if (Status status = Install(reset, now, out); !status.ok()) {  // nothing was touched: serving or loading continues
    out->Send(context_.options.coordinator,
              ResetBad{context_.options.shard, context_.options.incarnation, reset.generation, status.message()});
    return;
  }
  FinishReset(now, out);
}

// Takes the catalog and requests the blocks of the named version. The shard does not serve until they have arrived.
Status Shard::Install(const Reset& reset, Instant now, Outbox* out) {
  if (reset.slot_count == 0 || reset.slot_count > kSlotsMax) {
    return Invalid("a job has 1 to " + std::to_string(kSlotsMax) + " slots, not " + std::to_string(reset.slot_count));
  }
  if (reset.history > reset.generation) return Invalid("a history begins with a generation of its own");
  if (reset.history < reset.generation && !journal_) return Invalid("this shard keeps no log to go on with");
  if (reset.snapshot.IsNone() != reset.sources.empty()) return Invalid("a snapshot has one source for each part");
  CAPSTAN_ASSIGN_OR_RETURN(Catalog catalog, Catalog::Create(reset.catalog, context_.options.block_elements));
  const std::vector<ShardIndex> placement = PlaceBlocks(catalog, context_.options.shard_count);
  std::vector<BlockIndex> mine;
  std::uint64_t elements = 0;
  for (BlockIndex block = 0; block < placement.size(); ++block) {
    if (placement[block] != context_.options.shard) continue;
    mine.push_back(block);
    elements += catalog.blocks()[block].count;
  }
  CAPSTAN_RETURN_IF_ERROR(CheckMemory(elements, reset.slot_count, out));
  load_.reset();
  context_.store.reset();  // frees its memory first: there is no room for two
  snapshots_.Abandon();
  context_.catalog = std::make_unique<Catalog>(std::move(catalog));
  const auto begin = reset.snapshot.IsNone() ? BlockStore::Begin::kVersion0 : BlockStore::Begin::kToBeLoaded;
  context_.store = std::make_unique<BlockStore>(*context_.catalog, mine, context_.options.optimizer,
                                                context_.options.seed, begin, context_.options.encoding);
  gate_ = InitialWeightsGate(*context_.catalog, mine, begin);
  context_.generation = reset.generation;
  context_.served.version = reset.snapshot.version;
  context_.slot_count = reset.slot_count;
  context_.served.parameters = reset.parameters;
  NoteHeld();
  ForgetProgress();
  identity_.Begin(context_, reset.job, &work_);
  loaded_ = false;
  going_on_ = false;
  context_.timeline = reset.history;
  if (journal_) journal_->Reset(now);
  load_ = MakeLoad(reset, mine);
  if (auto load = load_->TakeWork()) work_.emplace_back(std::move(*load));
  return {};
}

std::unique_ptr<SnapshotLoad> Shard::MakeLoad(const Reset& reset, const std::vector<BlockIndex>& mine) const {
  SnapshotLoad::Options options;
  options.reset = reset;
  options.catalog_hash = context_.catalog->hash();
  options.array_count = context_.store->array_count();
  options.own_parts = snapshots_.parts();
  options.connect = context_.options.connect;
  if (reset.snapshot.IsNone()) return std::make_unique<SnapshotLoad>(std::move(options));
  options.part_of_block = PlaceBlocks(*context_.catalog, static_cast<std::uint32_t>(reset.sources.size()));
  for (std::size_t local = 0; local < mine.size(); ++local) {
    LoadTarget target{mine[local], context_.store->count(local), {}};
    const std::array<Slice, kBlockArraysMax> arrays = context_.store->Arrays(local);
    for (std::size_t i = 0; i < arrays.size(); ++i) target.arrays[i] = arrays[i].owner;
    options.targets.push_back(std::move(target));
  }
  return std::make_unique<SnapshotLoad>(std::move(options));
}

void Shard::FinishReset(Instant now, Outbox* out) {
  if (going_on_ && identity_.is_stored()) {
    going_on_ = false;
    SendResetDone(out);
    PrepareStepWhenComplete(now, out);  // if no slot ends here, nothing else triggers it
  }
  if (!load_) return;
  if (!load_->status().ok()) return FailReset(load_->status().message(), out);
  if (!load_->done()) return;
  if (!std::exchange(loaded_, true)) {
    TakeLoaded(*load_);
    if (journal_) {
      const Status status = journal_->BeginReplay(load_->reset().snapshot, load_->headers());
      if (!status.ok()) return FailReset(status.message(), out);
    }
  }
  if (!identity_.is_stored() || (journal_ && !journal_->is_ready())) return;
  load_.reset();
  context_.metrics->parameter_bytes.Set(context_.store->parameter_bytes());
  context_.metrics->optimizer_bytes.Set(context_.store->optimizer_bytes());
  context_.metrics->generation.Set(static_cast<double>(context_.generation.value));
  context_.metrics->version.Set(static_cast<double>(context_.served.version.value));
  SendResetDone(out);
  PrepareStepWhenComplete(now, out);
}

void Shard::SendResetDone(Outbox* out) {
  out->Send(context_.options.coordinator,
            ResetDone{context_.options.shard, context_.options.incarnation, context_.generation});
}

void Shard::FailReset(const std::string& reason, Outbox* out) {
  out->Send(context_.options.coordinator,
            ResetBad{context_.options.shard, context_.options.incarnation, context_.generation, reason});
  load_.reset();
  context_.store.reset();
}

// ---- another generation, the same history --------------------------------------------------------------------------

bool Shard::GoesOn(const Reset& reset) const {
  const bool can = journal_.has_value() || WorkersUpdate(context_.options.mode);
  return can && serving() && reset.history < reset.generation && reset.history == context_.timeline;
}

// Another shard was lost, or the workers form another group: nothing here goes back. Workers repeat the requests of the
// generation before; the step under way starts again.
void Shard::GoOn(const Reset& reset) {
  context_.generation = reset.generation;
  going_on_ = true;
  identity_.Begin(context_, reset.job, &work_);
  if (journal_ || !gate_.is_open()) {  // otherwise the coordinator still wants the snapshot being written
    snapshots_.Abandon();
  }
  if (!reset.snapshot.IsNone()) gate_.Open();  // SnapshotsKept may have been lost
  parked_.clear();
  answered_.clear();
  acknowledgements_.Reset();
  if (journal_) journal_->ForgetSenders();
  if (HasGlobalSteps(context_.options.mode)) {
    context_.store->DropPrepared();
    next_reports_.clear();
    next_program_state_ = {};
    BeginStep();
  }
  progress_changed_ = true;
  prepared_backoff_.Restart();
  context_.metrics->generation.Set(static_cast<double>(context_.generation.value));
}

// Takes the numbers stored with the blocks. The shard that was a slot's home then stored the slot's
// reports and its end.
void Shard::TakeLoaded(const SnapshotLoad& load) {
  for (std::size_t local = 0; local < progress_.size(); ++local) {
    const SnapshotHeader::Block* entry = load.entry(local);
    if (entry == nullptr) continue;
    progress_[local].updates = entry->updates;
    if (!entry->last.empty()) progress_[local].last = entry->last;
  }
  for (const SnapshotHeader& header : load.headers()) {
    for (SlotIndex slot = header.part; slot < header.ended.size(); slot += header.part_count) {
      if (slot % context_.options.shard_count == context_.options.shard) ended_[slot] = header.ended[slot];
    }
    for (const StepReport& entry : header.reports) {
      if (entry.report.slot % context_.options.shard_count != context_.options.shard) continue;
      KeepReport(entry.step, entry.report);
    }
  }
  CountClocks();
}

Status Shard::CheckMemory(std::uint64_t elements, SlotIndex slots, Outbox* out) const {
  const ShardMemory memory = CountShardMemory(context_.options, elements, slots);
  const std::uint64_t bytes = memory.bytes();
  const std::string account = memory.ToString();
  if (bytes > context_.options.memory_bytes_max) {
    return Invalid(account + ", more than the " + std::to_string(context_.options.memory_bytes_max >> 20) +
                   " MiB of this machine; use more servers or a smaller model");
  }
  const std::string held =
      elements == 0 ? " holds no parameters" : " holds " + std::to_string(elements) + " parameters";
  out->Say(Severity::kInfo,
           context_.name() + held + ", and needs up to " + std::to_string(bytes >> 20) + " MiB of memory");
  return {};
}

// Clears all state of steps and pushes, for the blocks of context_.store.
void Shard::ForgetProgress() {
  context_.local_of.clear();
  progress_.assign(context_.store->size(), BlockProgress{});
  segment_start_.clear();
  std::size_t segments = 0;
  for (std::size_t local = 0; local < context_.store->size(); ++local) {
    context_.local_of[context_.store->blocks()[local]] = local;
    progress_[local].last.assign(context_.slot_count, 0);
    segment_start_.push_back(segments);
    segments += context_.store->segment_count(local);
  }
  squares_.assign(segments, 0.0);
  const std::size_t trusted = TakesTrustRatio(context_.options.optimizer.kind) ? segments : 0;
  weight_squares_.assign(trusted, 0.0);
  direction_squares_.assign(trusted, 0.0);
  async_reports_.clear();
  next_reports_.clear();
  next_program_state_ = {};
  ended_.assign(context_.slot_count, 0);
  CountClocks();
  context_.served.last_commit.reset();
  parked_.clear();
  acknowledgements_.Reset();
  progress_changed_ = true;
  BeginStep();
}

}  // namespace capstan::server
