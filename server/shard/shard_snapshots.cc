// How a shard keeps versions: it pins them by reference, writes them in the background, serves their blocks to other
// shards, and deletes them when the coordinator retains newer ones.
#include <algorithm>

#include "common/wire/messages/fetch.h"
#include "common/wire/messages/fetched.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/snapshot_done.h"
#include "server/shard/admission.h"
#include "server/shard/shard.h"
#include "server/shard/snapshot_load.h"

namespace capstan::server {

namespace {

SnapshotId IdOf(const SnapshotDone& done) { return {done.generation, done.version}; }

Fetched NoBlock(const StoredBlock& wanted, std::string why) {
  Fetched none;
  none.snapshot = wanted.snapshot;
  none.part = wanted.part;
  none.block = wanted.block;
  none.failure = std::move(why);
  return none;
}

}  // namespace

void Shard::On(const Pin& pin, Instant now, Outbox* out) {
  if (!serving() || pin.generation != context_.generation) return;
  if (HasGlobalSteps(context_.options.mode) && pin.version > context_.served.version)
    return;  // its Commit is in flight
  const SnapshotId id{context_.generation, pin.version};
  const bool begun = (writing_ && IsSame(writing_->id, id)) || (snapshot_done_ && IsSame(IdOf(*snapshot_done_), id));
  if (first_weights_.kept() || begun) return PinSnapshot(id, now, out);
  first_pin_waits_ = true;
  PinFirstWeights(now, out);
}

// Whether the snapshot `id` was begun on the present timeline, where each version number has one content.
bool Shard::IsOfHistory(SnapshotId id) const {
  return id.generation >= context_.timeline && id.generation <= context_.generation;
}

bool Shard::IsSame(SnapshotId begun, SnapshotId asked) const {
  return IsOfHistory(begun) && begun.version == asked.version;
}

SnapshotDone Shard::NoSnapshot(SnapshotId id, std::string why) const {
  return {context_.options.shard,
          context_.options.incarnation,
          context_.term,
          id.generation,
          id.version,
          context_.served.parameters,
          0,
          0,
          std::move(why)};
}

void Shard::PinSnapshot(SnapshotId id, Instant now, Outbox* out) {
  if (writing_ && IsSame(writing_->id, id)) return;
  if (snapshot_done_ && IsSame(IdOf(*snapshot_done_), id)) return SendSnapshotDone(now, out);  // it may be lost
  if (id.version < context_.served.version || (snapshot_done_ && id < IdOf(*snapshot_done_))) {
    return out->Send(context_.options.coordinator, NoSnapshot(id, "steps have passed since it was asked for"));
  }
  if (!context_.served.parameters.held)
    return out->Send(context_.options.coordinator, NoSnapshot(id, "the workers alone have that version"));
  if (writing_) return FinishSnapshot(NoSnapshot(id, "the one before it is still being written"), now, out);
  if (context_.durable()) log_begins_[id] = next_record_;
  writing_ = Writing{id, std::make_shared<std::atomic<bool>>(false)};
  work_.push_back(WriteSnapshot{MakeImage(id), writing_->cancelled});
}

SnapshotImage Shard::MakeImage(SnapshotId id) const {
  SnapshotImage image;
  SnapshotHeader& header = image.header;
  header.job = life_.job;
  header.id = id;
  header.part = context_.options.shard;
  header.part_count = context_.options.shard_count;
  header.catalog_hash = context_.catalog->hash();
  header.array_count = context_.store->array_count();
  header.parameters = context_.served.parameters;
  header.slot_count = context_.slot_count;
  if (context_.durable()) header.log_begin = next_record_;
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

void Shard::FinishSnapshot(SnapshotDone done, Instant now, Outbox* out) {
  snapshot_done_ = std::make_unique<SnapshotDone>(std::move(done));
  snapshot_settled_ = false;
  snapshot_backoff_.Restart();
  SendSnapshotDone(now, out);
}

void Shard::SendSnapshotDone(Instant now, Outbox* out) {
  snapshot_backoff_.Sent(now);
  snapshot_done_->term = context_.term;
  out->Send(context_.options.coordinator, *snapshot_done_);
}

// The newest snapshot that this shard can go back to. It stays even if a coordinator with an older log
// does not list it.
SnapshotId Shard::NewestKeptHere() const {
  SnapshotId newest;
  for (const SnapshotPart& part : parts_) {
    if (part.id <= life_.newest_kept) newest = std::max(newest, part.id);
  }
  return newest;
}

void Shard::On(const SnapshotsKept& message, Instant now, Outbox* out) {
  if (message.generation != context_.generation) return;
  if (!message.kept.empty()) FirstWeightsAreKept(now, out);
  TrimLogTo(message.kept);
  if (snapshot_done_ && IdOf(*snapshot_done_) <= message.settled) {
    snapshot_settled_ = true;
    const bool kept = std::find(message.kept.begin(), message.kept.end(), IdOf(*snapshot_done_)) != message.kept.end();
    if (!kept && snapshot_done_->failure.empty()) snapshot_done_->failure = "it was given up, and deleted";
  }
  if (!message.kept.empty() && message.kept.back() > life_.newest_kept) {
    life_.newest_kept = message.kept.back();
    work_.push_back(RememberLife{life_});
  }
  const SnapshotId newest = NewestKeptHere();
  std::vector<SnapshotPart> gone;
  std::erase_if(parts_, [&](const SnapshotPart& part) {
    const bool kept =
        part.id == newest || std::find(message.kept.begin(), message.kept.end(), part.id) != message.kept.end();
    const bool newer = IsOfHistory(part.id) && part.id > message.settled;  // its manifest may be in flight
    if (!kept && !newer) gone.push_back(part);
    return !kept && !newer;
  });
  if (!gone.empty()) work_.push_back(RemoveParts{std::move(gone)});
}

void Shard::On(PeerId from, const Fetch& fetch, Outbox* out) {
  const StoredBlock wanted{fetch.snapshot, fetch.part, fetch.block};
  const bool here = std::any_of(parts_.begin(), parts_.end(), [&](const SnapshotPart& part) {
    return part.id == wanted.snapshot && part.part == wanted.part;
  });
  if (!here) {
    return out->Send(from, NoBlock(wanted, "that part is not here"));
  }
  if (peer_reads_ >= kPeerReadsMax) return;  // the other shard asks again
  ++peer_reads_;
  work_.push_back(ReadForPeer{from, wanted});
}

// ---- results of the disk's work ------------------------------------------------------------------------------------

void Shard::Handle(DiskResult result, Instant now, Outbox* out) {
  std::visit([&](auto& body) { On(std::move(body), now, out); }, result);
}

void Shard::On(LifeRemembered result, Instant now, Outbox* out) {
  life_failed_ = !result.status.ok();
  if (life_failed_) {
    life_backoff_.Sent(now);
    out->Say(Severity::kError, context_.name() + " cannot write to its directory: " + result.status.message());
    return;
  }
  life_backoff_.Restart();
  if (result.life.generation == context_.generation) life_remembered_ = true;
  FinishReset(now, out);
}

void Shard::On(SnapshotLoaded result, Instant now, Outbox* out) {
  if (load_) load_->Handle(std::move(result), now, out);
  FinishReset(now, out);
}

void Shard::On(SnapshotWritten result, Instant now, Outbox* out) {
  const bool cancelled = writing_ && writing_->id == result.id && writing_->cancelled->load();
  if (writing_ && writing_->id == result.id) writing_.reset();
  if (result.status.ok()) parts_.push_back({result.id, context_.options.shard, result.digest});
  if (cancelled || !IsOfHistory(result.id)) return PinFirstWeights(now, out);
  SnapshotDone done{context_.options.shard,
                    context_.options.incarnation,
                    context_.term,
                    result.id.generation,
                    result.id.version,
                    result.parameters,
                    result.digest,
                    result.bytes,
                    {}};
  if (!result.status.ok()) done.failure = result.status.message();
  FinishSnapshot(std::move(done), now, out);
}

void Shard::On(PeerRead result, Instant, Outbox* out) {
  --peer_reads_;
  if (!result.status.ok()) {
    return out->Send(result.peer, NoBlock(result.wanted, result.status.message()));
  }
  for (std::uint32_t array = 0; array < result.arrays.size(); ++array) {
    Fetched fetched;
    fetched.snapshot = result.wanted.snapshot;
    fetched.part = result.wanted.part;
    fetched.block = result.wanted.block;
    fetched.array = array;
    fetched.arrays = static_cast<std::uint32_t>(result.arrays.size());
    fetched.updates = result.entry.updates;
    fetched.last = result.entry.last;
    fetched.payload_hash = result.hashes[array];
    out->Send(result.peer, std::move(fetched), std::move(result.arrays[array]));
  }
}

void Shard::On(PartsRemoved result, Instant, Outbox* out) {
  if (result.status.ok()) return;
  out->Say(Severity::kWarning, context_.name() + " cannot delete an old snapshot: " + result.status.message());
}

}  // namespace capstan::server
