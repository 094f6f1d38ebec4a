#include "tests/sim/disk.h"

#include <algorithm>
#include <cstring>

#include "common/base/hash.h"
#include "common/wire/messages/snapshot_id.h"
#include "server/storage/shard_disk.h"
#include "server/storage/shard_identity.h"
#include "server/storage/shard_identity_codec.h"
#include "server/storage/snapshot.h"

namespace capstan::sim {

using server::SnapshotHeader;
using server::SnapshotImage;

Status SimDisk::PersistIdentity(const server::ShardIdentity& identity) {
  if (full_ && kills_when_full_) return Unreachable("the disk is full");
  const Result<server::ShardIdentity> read = server::DecodeShardIdentity(server::EncodeShardIdentity(identity));
  if (!read.ok()) return unreadable_ = read.status();
  identity_ = *read;
  if (flaw_ == Flaw::kIncarnationForgotten) identity_.incarnation = {};
  if (flaw_ == Flaw::kGenerationForgotten) identity_.generation = {};
  return {};
}

std::vector<SnapshotPart> SimDisk::List() const {
  std::vector<SnapshotPart> list;
  for (const auto& [key, part] : parts_) {
    if (part.readable) list.push_back({key.first, key.second, part.digest});
  }
  for (const SimDisk* orphan : orphans_) {
    for (const SnapshotPart& part : orphan->List()) list.push_back(part);
  }
  return list;
}

Result<server::SnapshotStore::Written> SimDisk::Write(SnapshotImage image, const std::atomic<bool>& cancelled) {
  if (cancelled.load()) return Refused("cancelled");
  if (full_) return Unreachable("the disk is full");
  StoredPart part;
  Written written;
  SnapshotHeader header = std::move(image.header);
  for (std::size_t i = 0; i < header.blocks.size(); ++i) {
    SnapshotHeader::BlockEntry& block = header.blocks[i];
    for (std::uint32_t array = 0; array < header.array_count; ++array) {
      const std::span<const std::byte> whole = image.arrays[i][array].bytes();
      std::vector<std::byte> bytes(whole.begin(), whole.end());
      Spoil(block.block, array, &bytes);
      block.hashes[array] = Hash64(bytes);
      part.arrays[{block.block, array}] = bytes;
      written.bytes += bytes.size();
    }
  }
  if (flaw_ == Flaw::kNoSequenceNumbers) {
    for (SnapshotHeader::BlockEntry& block : header.blocks)
      std::fill(block.last.begin(), block.last.end(), SequenceNumber{});
  }
  if (flaw_ == Flaw::kLogTrimmedEarly) (void)push_log_.Trim(header.log_begin);
  WriteHeader(header, &part);
  written.digest = part.digest;
  const std::pair key{header.id, header.part};
  parts_.insert_or_assign(key, std::move(part));
  newest_ = key;
  return written;
}

// Stores the header. If it cannot be encoded, or its reader would refuse it, notes this in unreadable_.
void SimDisk::WriteHeader(const SnapshotHeader& header, StoredPart* part) {
  Result<std::string> encoded = server::EncodeSnapshotHeader(header);
  if (!encoded.ok()) {
    unreadable_ = encoded.status();
    return;
  }
  if (flaw_ == Flaw::kUnreadableHeader) encoded->pop_back();
  part->digest = header.Digest();
  Result<SnapshotHeader> read = server::DecodeSnapshotHeader(*encoded);
  part->readable = read.ok() && header.reports.size() <= reports_max_;
  if (read.ok()) CAPSTAN_CHECK(read->Digest() == part->digest);
  if (!read.ok()) unreadable_ = read.status();
  if (read.ok() && !part->readable) {
    unreadable_ = Corrupt(std::to_string(header.reports.size()) + " reports in the header of a snapshot's part, " +
                          std::to_string(reports_max_) + " can be read");
  }
  if (read.ok()) {
    part->header = std::make_shared<const SnapshotHeader>(std::move(read).value());
  } else {
    part->header = read.status();
  }
}

// Changes the bytes of an array as this disk's flaw demands; without a flaw they stay.
void SimDisk::Spoil(BlockIndex block, std::uint32_t array, std::vector<std::byte>* bytes) const {
  if (flaw_ == Flaw::kNoOptimizerState && array > 0) std::fill(bytes->begin(), bytes->end(), std::byte{0});
  if (flaw_ == Flaw::kDamageHashed && !bytes->empty()) bytes->front() ^= std::byte{1};
  if (flaw_ != Flaw::kOlderArrays || !newest_) return;
  const auto& before = parts_.at(*newest_).arrays;
  if (const auto found = before.find({block, array}); found != before.end()) *bytes = found->second;
}

void SimDisk::Crash() {
  if (flaw_ == Flaw::kWriteNotDurable && newest_) parts_.erase(*newest_);
  newest_.reset();
  push_log_.Crash();
}

const SimDisk::StoredPart* SimDisk::Find(SnapshotId id, ShardIndex part) const {
  const auto found = parts_.find({id, part});
  if (found != parts_.end()) return &found->second;
  for (const SimDisk* orphan : orphans_) {
    if (const StoredPart* there = orphan->Find(id, part)) return there;
  }
  return nullptr;
}

Result<server::SharedHeader> SimDisk::ReadHeader(SnapshotId id, ShardIndex part) const {
  const StoredPart* found = Find(id, part);
  if (found == nullptr) return Invalid("no such part");
  return found->header;
}

Status SimDisk::ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                          std::span<std::byte> out) const {
  const StoredPart* found = Find(id, part);
  if (found == nullptr) return Invalid("no such part");
  const auto bytes = found->arrays.find({block, array});
  if (bytes == found->arrays.end() || bytes->second.size() != out.size()) return Corrupt("no such array");
  std::memcpy(out.data(), bytes->second.data(), out.size());
  return {};
}

Status SimDisk::Remove(SnapshotId id, ShardIndex part) {
  parts_.erase({id, part});
  if (newest_ == std::pair{id, part}) newest_.reset();
  for (SimDisk* orphan : orphans_) (void)orphan->Remove(id, part);
  return {};
}

bool SimDisk::Damage(SnapshotId id, std::uint64_t random) {
  for (auto& [key, part] : parts_) {
    if (key.first != id || part.arrays.empty()) continue;
    auto array = part.arrays.begin();
    std::advance(array, static_cast<std::ptrdiff_t>(random % part.arrays.size()));
    if (array->second.empty()) continue;
    array->second[(random >> 8) % array->second.size()] ^= std::byte{1};
    return true;
  }
  return false;
}

}  // namespace capstan::sim
