#include "server/shard/snapshot_load.h"

#include <algorithm>
#include <cstring>

#include "common/base/hash.h"
#include "common/base/utf8.h"
#include "common/wire/messages/fetch.h"
#include "common/wire/messages/fetched.h"

namespace capstan::server {

namespace {

std::string Name(const SnapshotId& id, ShardIndex part) {
  return "part " + std::to_string(part) + " of snapshot " + std::to_string(id.version.value) + " (generation " +
         std::to_string(id.generation.value) + ")";
}

}  // namespace

SnapshotLoad::SnapshotLoad(Options options) : options_(std::move(options)) {
  if (options_.reset.snapshot.IsNone()) return;
  const std::size_t parts = options_.reset.sources.size();
  headers_.resize(parts);
  parts_.resize(parts);
  for (ShardIndex part = 0; part < parts; ++part) {
    if (IsOwn(part)) {
      own_pending_ = true;
      continue;
    }
    const std::string& endpoint = options_.reset.sources[part].endpoint;
    if (!endpoint.empty() && options_.connect) parts_[part].holder = options_.connect(endpoint);
    if (parts_[part].holder.value == 0) {
      Fail(Unreachable("nobody has " + Name(options_.reset.snapshot, part)));
      return;
    }
    ++headers_left_;
    parts_[part].wanted.push_back({kFetchHeader, {SIZE_MAX, 1}});
  }
}

bool SnapshotLoad::IsOwn(ShardIndex part) const {
  const SnapshotPart wanted{options_.reset.snapshot, part, options_.reset.sources[part].digest};
  return std::find(options_.own_parts.begin(), options_.own_parts.end(), wanted) != options_.own_parts.end();
}

void SnapshotLoad::Redirect(const Reset& again) {
  options_.reset.fetch_key = again.fetch_key;
  const std::vector<Reset::Source>& sources = again.sources;
  if (sources.size() != options_.reset.sources.size()) return;
  for (ShardIndex part = 0; part < sources.size(); ++part) {
    Reset::Source& known = options_.reset.sources[part];
    const bool moved = parts_[part].holder.value != 0 && sources[part].digest == known.digest &&
                       sources[part].endpoint != known.endpoint;
    if (!moved) continue;
    known.endpoint = sources[part].endpoint;
    PartFetch& there = parts_[part];
    there.holder = options_.connect(known.endpoint);
    there.line = LinePace();
    there.question = 0;
    std::erase_if(fetching_, [&](const auto& fetch) {
      if (fetch.first.first != part) return false;
      there.wanted.push_back({fetch.first.second, fetch.second});
      return true;
    });
  }
}

std::optional<LoadSnapshot> SnapshotLoad::TakeWork() {
  if (!own_pending_) return std::nullopt;
  LoadSnapshot work;
  work.generation = options_.reset.generation;
  work.id = options_.reset.snapshot;
  for (ShardIndex part = 0; part < headers_.size(); ++part) {
    if (IsOwn(part)) work.parts.push_back({part, options_.reset.sources[part].digest});
  }
  for (const LoadTarget& target : options_.targets) {
    if (IsOwn(options_.part_of_block[target.block])) work.targets.push_back(target);
  }
  return work;
}

void SnapshotLoad::Fail(Status status) {
  if (failure_.ok()) failure_ = std::move(status);
}

Status SnapshotLoad::CheckHeader(const SnapshotHeader& header, ShardIndex part) const {
  const Reset& reset = options_.reset;
  const std::string name = Name(reset.snapshot, part);
  if (header.job != reset.job) return Invalid(name + " belongs to another job");
  if (header.id != reset.snapshot || header.part != part || header.part_count != reset.sources.size()) {
    return Corrupt(name + " says that it is " + Name(header.id, header.part));
  }
  if (header.Digest() != reset.sources[part].digest) return Corrupt(name + " does not match its manifest");
  if (header.catalog_hash != options_.catalog_hash) return Invalid(name + " is of another model");
  if (header.array_count != options_.array_count) return Invalid(name + " is of another optimizer");
  if (header.slot_count != reset.slot_count) return Invalid(name + " is of another number of slots");
  return {};
}

Status SnapshotLoad::TakeHeader(SnapshotHeader header, ShardIndex part) {
  CAPSTAN_RETURN_IF_ERROR(CheckHeader(header, part));
  for (const LoadTarget& target : options_.targets) {
    if (options_.part_of_block[target.block] != part) continue;
    const SnapshotHeader::BlockEntry* entry = header.Find(target.block);
    const bool fits = entry != nullptr && entry->count == target.count &&
                      (entry->last.empty() || entry->last.size() == header.slot_count);
    if (!fits) return Corrupt(Name(header.id, part) + " lacks block " + std::to_string(target.block));
  }
  headers_[part] = std::move(header);
  return {};
}

void SnapshotLoad::Handle(SnapshotLoaded result, Instant now, Outbox* out) {
  if (result.generation != options_.reset.generation || !own_pending_) return;
  own_pending_ = false;
  if (!result.status.ok()) return Fail(std::move(result.status));
  for (SnapshotHeader& header : result.headers) {
    const ShardIndex part = header.part;
    if (part >= headers_.size()) return Fail(Corrupt("there is no part " + std::to_string(part)));
    if (Status status = TakeHeader(std::move(header), part); !status.ok()) return Fail(std::move(status));
  }
  FetchMore(0, now, out);
}

void SnapshotLoad::Handle(PeerId from, const Fetched& fetched, const Slice& payload, Instant now, Outbox* out) {
  if (fetched.snapshot != options_.reset.snapshot) return;
  const ShardIndex part = fetched.part;
  if (fetched.block == kFetchQuestion) {
    if (part < parts_.size() && parts_[part].holder == from) {
      FetchAgain(part, std::exchange(parts_[part].question, 0), now, out);
    }
    return;
  }
  const auto found = fetching_.find({part, fetched.block});
  if (found == fetching_.end() || parts_[part].holder != from) return;  // a duplicate
  if (!fetched.failure.empty()) {
    return Fail(Corrupt(Name(fetched.snapshot, part) + ": " + Excerpt(fetched.failure, kLongExcerptBytesMax)));
  }
  if (Hash64(payload.bytes()) != fetched.payload_hash) return;  // damaged in transit: it will be requested again
  const Fetching fetching = found->second;
  if (fetched.block == kFetchHeader) {
    const Result<bool> whole = TakeHeaderPiece(fetched, payload);
    if (!whole.ok()) return Fail(whole.status());
    if (!*whole) return parts_[part].line.News(now);
    --headers_left_;
    for (std::size_t i = 0; i < options_.targets.size(); ++i) {
      const BlockIndex block = options_.targets[i].block;
      if (options_.part_of_block[block] == part)
        parts_[part].wanted.push_back({block, {i, (1U << options_.array_count) - 1}});
    }
  } else {
    if (Status status = TakeArray(fetched, payload, &found->second); !status.ok()) return Fail(std::move(status));
    if (found->second.arrays_left != 0) return parts_[part].line.News(now);
  }
  parts_[part].line.Answered(fetching.sent, now);
  fetching_.erase(found);
  FetchMore(part, now, out);
}

// Takes one piece of a part's header. Returns whether the header is complete.
Result<bool> SnapshotLoad::TakeHeaderPiece(const Fetched& fetched, const Slice& payload) {
  if (fetched.array >= fetched.arrays || fetched.arrays > kPartHeaderBytesMax / kHeaderPieceBytes ||
      payload.size == 0 || payload.size > kHeaderPieceBytes) {
    return Corrupt(Name(fetched.snapshot, fetched.part) + " comes in pieces that cannot be");
  }
  std::vector<std::string>& pieces = header_pieces_[fetched.part];
  if (pieces.size() != fetched.arrays) pieces.assign(fetched.arrays, "");
  pieces[fetched.array].assign(reinterpret_cast<const char*>(payload.data), payload.size);
  std::string bytes;
  for (const std::string& piece : pieces) {
    if (piece.empty()) return false;
    bytes += piece;
  }
  header_pieces_.erase(fetched.part);
  CAPSTAN_ASSIGN_OR_RETURN(SnapshotHeader header, DecodeSnapshotHeader(bytes));
  CAPSTAN_RETURN_IF_ERROR(TakeHeader(std::move(header), fetched.part));
  return true;
}

Status SnapshotLoad::TakeArray(const Fetched& fetched, const Slice& payload, Fetching* fetching) {
  if (fetched.array >= options_.array_count) return Corrupt("there is no array " + std::to_string(fetched.array));
  const LoadTarget& target = options_.targets[fetching->target];
  const ShardIndex part = options_.part_of_block[target.block];
  const SnapshotHeader::BlockEntry* entry = headers_[part].Find(target.block);
  if (payload.size != target.count * sizeof(float) || fetched.payload_hash != entry->hashes[fetched.array]) {
    return Corrupt("block " + std::to_string(target.block) + " of " + Name(fetched.snapshot, part) +
                   " does not match its hash");
  }
  std::memcpy(target.arrays[fetched.array]->data(), payload.data, payload.size);
  fetching->arrays_left &= ~(1U << fetched.array);
  return {};
}

bool SnapshotLoad::wants() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const PartFetch& part) { return !part.wanted.empty(); });
}

std::uint64_t SnapshotLoad::BytesOf(const Fetching& fetching) const {
  if (fetching.target == SIZE_MAX) return 0;  // the size of a header is unknown
  return options_.targets[fetching.target].count * sizeof(float) * options_.array_count;
}

// Requests headers and blocks, as many as the lines to the parts' holders allow: first of part `first`, then of other
// parts.
void SnapshotLoad::FetchMore(ShardIndex first, Instant now, Outbox* out) {
  for (std::size_t i = 0; i < parts_.size() && fetching_.size() < kFetchesMax; ++i) {
    const auto index = static_cast<ShardIndex>((first + i) % parts_.size());
    PartFetch& part = parts_[index];
    while (!part.wanted.empty() && fetching_.size() < kFetchesMax &&
           part.line.HasRoom(BytesOf(part.wanted[0].second))) {
      const auto [block, fetching] = part.wanted.front();
      part.wanted.pop_front();
      Send(index, block, fetching, now, out);
    }
  }
}

void SnapshotLoad::Send(ShardIndex part, BlockIndex block, Fetching fetching, Instant now, Outbox* out) {
  fetching.sent = parts_[part].line.Send(++sent_, BytesOf(fetching), now);
  fetching_[{part, block}] = fetching;
  out->Send(parts_[part].holder, Fetch{options_.reset.snapshot, part, block, options_.reset.fetch_key});
}

// Requests again what was requested of a part before request number `before` and has not arrived: it is lost.
void SnapshotLoad::FetchAgain(ShardIndex part, std::uint64_t before, Instant now, Outbox* out) {
  std::vector<std::pair<BlockIndex, Fetching>> lost;
  for (const auto& [key, fetching] : fetching_) {
    if (key.first == part && fetching.sent.number < before) lost.emplace_back(key.second, fetching);
  }
  for (auto& [block, fetching] : lost) {
    parts_[part].line.Dropped(fetching.sent);
    Send(part, block, fetching, now, out);
  }
}

// If the holder of a part is silent for longer than its answers usually take, sends it a Fetch of kFetchQuestion. What
// was requested before that and has not arrived before its answer is lost.
void SnapshotLoad::Tick(Instant now, Outbox* out) {
  if (!failure_.ok() || own_pending_) return;
  FetchMore(0, now, out);
  for (ShardIndex part = 0; part < parts_.size(); ++part) {
    LinePace& line = parts_[part].line;
    if (line.count() == 0) line.Rest();
    if (!line.Due(now)) continue;
    line.Asked(now);
    if (parts_[part].question == 0) parts_[part].question = ++sent_;
    out->Send(parts_[part].holder, Fetch{options_.reset.snapshot, part, kFetchQuestion, options_.reset.fetch_key});
  }
}

const SnapshotHeader::BlockEntry* SnapshotLoad::entry(std::size_t target) const {
  if (headers_.empty()) return nullptr;
  const BlockIndex block = options_.targets[target].block;
  return headers_[options_.part_of_block[block]].Find(block);
}

std::vector<const SnapshotHeader::BlockEntry*> SnapshotLoad::entries() const {
  std::vector<const SnapshotHeader::BlockEntry*> entries;
  for (std::size_t target = 0; target < options_.targets.size(); ++target) entries.push_back(entry(target));
  return entries;
}

std::string SnapshotLoad::WaitingFor() const {
  if (fetching_.empty()) return own_pending_ ? "its disk" : "";
  const auto& [part, block] = fetching_.begin()->first;
  return (block == kFetchHeader ? Name(options_.reset.snapshot, part) : "block " + std::to_string(block)) + " from " +
         options_.reset.sources[part].endpoint;
}

}  // namespace capstan::server
