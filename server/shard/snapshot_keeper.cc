#include "server/shard/snapshot_keeper.h"

#include <algorithm>
#include <utility>

#include "common/wire/messages/fetch.h"
#include "common/wire/messages/fetched.h"
#include "common/wire/messages/shard_orders.h"
#include "server/shard/shard_context.h"

namespace capstan::server {

namespace {

SnapshotId IdOf(const SnapshotDone& done) { return {done.generation, done.version}; }

bool IsIn(const std::vector<SnapshotId>& ids, SnapshotId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

Fetched NoBlock(const StoredBlock& wanted, std::string why) {
  Fetched none;
  none.snapshot = wanted.snapshot;
  none.part = wanted.part;
  none.block = wanted.block;
  none.failure = std::move(why);
  return none;
}

}  // namespace

SnapshotKeeper::SnapshotKeeper(const ShardContext& shard)
    : shard_(shard), parts_(shard.options.parts), backoff_(shard.options.shard) {}

bool SnapshotKeeper::IsSame(SnapshotId begun, SnapshotId asked) const {
  return shard_.IsOfTimeline(begun) && begun.version == asked.version;
}

bool SnapshotKeeper::HasBegun(SnapshotId id) const {
  return (writing_ && IsSame(writing_->id, id)) || (done_ && IsSame(IdOf(*done_), id));
}

SnapshotDone SnapshotKeeper::Failed(SnapshotId id, std::string why) const {
  return {shard_.options.shard, shard_.options.incarnation, shard_.term, id.generation,
          id.version,           shard_.served.parameters,   0,           0,
          std::move(why)};
}

bool SnapshotKeeper::Pin(SnapshotId id, Instant now, Outbox* out) {
  if (writing_ && IsSame(writing_->id, id)) return false;
  if (done_ && IsSame(IdOf(*done_), id)) {
    SendDone(now, out);  // an earlier report may have been lost
    return false;
  }
  if (id.version < shard_.served.version || (done_ && id < IdOf(*done_))) {
    out->Send(shard_.options.coordinator, Failed(id, "steps have passed since it was asked for"));
    return false;
  }
  if (!shard_.served.parameters.on_shards) {
    out->Send(shard_.options.coordinator, Failed(id, "the workers alone have that version"));
    return false;
  }
  if (writing_) Finish(Failed(id, "the one before it is still being written"), now, out);
  return !writing_;
}

SnapshotImage SnapshotKeeper::MakeImage(SnapshotId id, JobId job) const {
  const BlockStore& store = *shard_.store;
  SnapshotImage image;
  SnapshotHeader& header = image.header;
  header.job = job;
  header.id = id;
  header.part = shard_.options.shard;
  header.part_count = shard_.options.shard_count;
  header.catalog_hash = shard_.catalog->hash();
  header.array_count = store.array_count();
  header.parameters = shard_.served.parameters;
  header.slot_count = shard_.slot_count;
  for (std::size_t index = 0; index < store.size(); ++index) {
    SnapshotHeader::BlockEntry block;
    block.block = store.blocks()[index];
    block.count = store.count(index);
    header.blocks.push_back(std::move(block));
    image.arrays.push_back(store.Arrays(index));
  }
  return image;
}

void SnapshotKeeper::Write(SnapshotImage image, std::vector<DiskWork>* work) {
  writing_ = Writing{image.header.id, std::make_shared<std::atomic<bool>>(false)};
  work->push_back(WriteSnapshot{std::move(image), writing_->cancelled});
}

void SnapshotKeeper::Abandon() {
  if (writing_) writing_->cancelled->store(true);
  done_.reset();
}

void SnapshotKeeper::Finish(SnapshotDone done, Instant now, Outbox* out) {
  done_ = std::move(done);
  settled_ = false;
  backoff_.Restart();
  SendDone(now, out);
}

void SnapshotKeeper::SendDone(Instant now, Outbox* out) {
  backoff_.Sent(now);
  done_->term = shard_.term;
  out->Send(shard_.options.coordinator, *done_);
}

void SnapshotKeeper::Tick(Instant now, Outbox* out) {
  if (done_ && !settled_ && backoff_.Due(now)) SendDone(now, out);
}

// Returns the newest snapshot that has a part here and that a coordinator has retained, or an older one if somebody has
// deleted that part. A coordinator that lost the end of its log may not list the snapshot.
SnapshotId SnapshotKeeper::NewestHere(SnapshotId newest_retained) const {
  SnapshotId newest;
  for (const SnapshotPart& part : parts_) {
    if (part.id <= newest_retained) newest = std::max(newest, part.id);
  }
  return newest;
}

bool SnapshotKeeper::Has(SnapshotId id) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const SnapshotPart& part) { return part.id == id; });
}

// Without global steps a shard may write a version that its own clock has not reached yet.
Status SnapshotKeeper::Check(const RetainedSnapshots& list, SnapshotId newest_retained) const {
  const auto name = [](SnapshotId id) {
    return "version " + std::to_string(id.version.value) + " (generation " + std::to_string(id.generation.value) + ")";
  };
  if (list.ids.empty() && !newest_retained.IsNone()) {
    return Invalid("there are said to be no snapshots, and there was one of " + name(newest_retained));
  }
  for (const SnapshotId id : list.ids) {
    const bool may_be = id.generation <= shard_.generation && id.version <= shard_.served.version;
    if (!may_be && !Has(id)) return Invalid("there is said to be a snapshot of " + name(id) + ", which is yet to come");
  }
  return {};
}

void SnapshotKeeper::Settle(const RetainedSnapshots& list) {
  if (!done_ || IdOf(*done_) > list.settled) return;
  settled_ = true;
  if (!IsIn(list.ids, IdOf(*done_)) && done_->failure.empty()) done_->failure = "it was given up, and deleted";
}

void SnapshotKeeper::Handle(const RetainedSnapshots& list, SnapshotId newest_retained, std::vector<DiskWork>* work) {
  const SnapshotId newest = NewestHere(newest_retained);
  std::vector<SnapshotPart> gone;
  std::erase_if(parts_, [&](const SnapshotPart& part) {
    const bool retained = part.id == newest || IsIn(list.ids, part.id);
    const bool newer = shard_.IsOfTimeline(part.id) && part.id > list.settled;  // its manifest may be in flight
    if (!retained && !newer) gone.push_back(part);
    return !retained && !newer;
  });
  if (!gone.empty()) work->push_back(RemoveParts{std::move(gone)});
}

void SnapshotKeeper::Handle(PeerId from, const Fetch& fetch, std::vector<DiskWork>* work, Outbox* out) {
  const StoredBlock wanted{fetch.snapshot, fetch.part, fetch.block};
  const bool here = std::any_of(parts_.begin(), parts_.end(), [&](const SnapshotPart& part) {
    return part.id == wanted.snapshot && part.part == wanted.part;
  });
  if (!here) {
    out->Send(from, NoBlock(wanted, "that part is not here"));
    return;
  }
  if (peer_reads_ >= kPeerReadsMax) return;  // the other shard asks again
  ++peer_reads_;
  work->push_back(ReadForPeer{from, wanted});
}

bool SnapshotKeeper::Handle(SnapshotWritten result, Instant now, Outbox* out) {
  const bool cancelled = writing_ && writing_->id == result.id && writing_->cancelled->load();
  if (writing_ && writing_->id == result.id) writing_.reset();
  if (result.status.ok()) parts_.push_back({result.id, shard_.options.shard, result.digest});
  if (cancelled || !shard_.IsOfTimeline(result.id)) return false;
  SnapshotDone done{shard_.options.shard,
                    shard_.options.incarnation,
                    shard_.term,
                    result.id.generation,
                    result.id.version,
                    result.parameters,
                    result.digest,
                    result.bytes,
                    {}};
  if (!result.status.ok()) done.failure = result.status.message();
  Finish(std::move(done), now, out);
  return true;
}

void SnapshotKeeper::Handle(PeerRead result, Outbox* out) {
  --peer_reads_;
  if (!result.status.ok()) {
    out->Send(result.peer, NoBlock(result.wanted, result.status.message()));
    return;
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

void SnapshotKeeper::Handle(const PartsRemoved& result, Outbox* out) const {
  if (result.status.ok()) return;
  out->Log(Severity::kWarning, shard_.name() + " cannot delete an old snapshot: " + result.status.message());
}

}  // namespace capstan::server
