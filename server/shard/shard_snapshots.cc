// How a shard keeps versions: when a version is written to disk, and what a snapshot says of this shard.
#include "common/wire/messages/shard_orders.h"
#include "server/shard/admission.h"
#include "server/shard/shard.h"
#include "server/shard/snapshot_load.h"

namespace capstan::server {

void Shard::On(const Pin& pin, Instant now, Outbox* out) {
  if (!serving() || pin.generation != context_.generation) return;
  if (HasGlobalSteps(context_.options.mode) && pin.version > version()) return;  // its Commit is in flight
  const SnapshotId id{context_.generation, pin.version};
  if (gate_.is_open() || snapshots_.HasBegun(id)) return PinSnapshot(id, now, out);
  gate_.RequestSnapshot();
  PinInitialWeights(now, out);
}

void Shard::PinSnapshot(SnapshotId id, Instant now, Outbox* out) {
  if (!snapshots_.Pin(id, now, out)) return;
  SnapshotImage image = MakeImage(id);
  if (journal_) journal_->Mark(&image.header);
  snapshots_.Write(std::move(image), &work_);
}

// Writes version 0 once it is complete and an earlier snapshot is no longer being written.
void Shard::PinInitialWeights(Instant now, Outbox* out) {
  if (snapshots_.is_writing() || !gate_.TakeSnapshotRequest()) return;
  PinSnapshot({context_.generation, version()}, now, out);
}

SnapshotImage Shard::MakeImage(SnapshotId id) const {
  SnapshotImage image;
  SnapshotHeader& header = image.header;
  header.job = identity_.life().job;
  header.id = id;
  header.part = context_.options.shard;
  header.part_count = context_.options.shard_count;
  header.catalog_hash = context_.catalog->hash();
  header.array_count = context_.store->array_count();
  header.parameters = context_.served.parameters;
  header.slot_count = context_.slot_count;
  const bool by_slot = !HasGlobalSteps(context_.options.mode);
  if (by_slot) header.ended = ended_;
  for (const auto& [key, report] : async_reports_) header.reports.push_back({Step{key.first}, report});
  for (std::size_t local = 0; local < context_.store->size(); ++local) {
    SnapshotHeader::Block block;
    block.block = context_.store->blocks()[local];
    block.count = context_.store->count(local);
    block.updates = progress_[local].updates;
    if (by_slot) block.last = progress_[local].last;
    header.blocks.push_back(std::move(block));
    image.arrays.push_back(context_.store->Arrays(local));
  }
  return image;
}

void Shard::On(const SnapshotsKept& message, Instant now, Outbox* out) {
  if (message.generation != context_.generation) return;
  if (!message.kept.empty() && !gate_.is_open()) {
    gate_.Open();
    AnswerParkedPulls(now, out);
  }
  if (journal_) journal_->TrimTo(message.kept);
  if (!message.kept.empty()) identity_.RaiseNewestKept(message.kept.back(), &work_);
  snapshots_.Handle(message, identity_.life().newest_kept, &work_);
}

void Shard::Handle(DiskResult result, Instant now, Outbox* out) {
  if (const auto* remembered = std::get_if<LifeRemembered>(&result)) {
    if (identity_.Handle(*remembered, context_, now, out)) FinishReset(now, out);
  } else if (auto* loaded = std::get_if<SnapshotLoaded>(&result)) {
    if (load_) load_->Handle(std::move(*loaded), now, out);
    FinishReset(now, out);
  } else if (auto* written = std::get_if<SnapshotWritten>(&result)) {
    if (!snapshots_.Handle(std::move(*written), now, out)) PinInitialWeights(now, out);
  } else if (auto* read = std::get_if<PeerRead>(&result)) {
    snapshots_.Handle(std::move(*read), out);
  } else {
    snapshots_.Handle(std::get<PartsRemoved>(result), out);
  }
}

}  // namespace capstan::server
