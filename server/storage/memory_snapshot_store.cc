#include "server/storage/memory_snapshot_store.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "common/base/hash.h"
#include "common/wire/messages/snapshot_id.h"
#include "server/storage/shard_identity.h"
#include "server/storage/snapshot.h"
#include "server/storage/verified_read.h"

namespace capstan::server {

Status MemorySnapshotStore::PersistIdentity(const ShardIdentity& identity) {
  if (!remember_failure_.ok()) return remember_failure_;
  identity_ = identity;
  return {};
}

std::vector<SnapshotPart> MemorySnapshotStore::List() const {
  std::vector<SnapshotPart> list;
  for (const auto& [key, part] : parts_) list.push_back({key.first, key.second, part.header->Digest()});
  return list;
}

Result<SnapshotStore::Written> MemorySnapshotStore::Write(SnapshotImage image, const std::atomic<bool>& cancelled) {
  SnapshotHeader header = std::move(image.header);
  StoredPart part;
  Written written;
  for (std::size_t i = 0; i < header.blocks.size(); ++i) {
    if (cancelled.load()) return Refused("the snapshot was given up");
    for (std::uint32_t j = 0; j < header.array_count; ++j) {
      const Slice slice = std::move(image.arrays[i][j]);
      part.arrays.emplace_back(slice.data, slice.data + slice.size);
      header.blocks[i].hashes[j] = Hash64(slice.bytes());
      written.bytes += slice.size;
    }
  }
  if (cancelled.load()) return Refused("the snapshot was given up");
  if (!write_failure_.ok()) return write_failure_;
  written.digest = header.Digest();
  const Key key{header.id, header.part};
  part.header = std::make_shared<const SnapshotHeader>(std::move(header));
  parts_.insert_or_assign(key, std::move(part));
  return written;
}

Result<const MemorySnapshotStore::StoredPart*> MemorySnapshotStore::Find(SnapshotId id, ShardIndex part) const {
  const auto found = parts_.find({id, part});
  if (found == parts_.end()) return Invalid(NameOfPart(id, part) + " is not here");
  return &found->second;
}

Result<SharedHeader> MemorySnapshotStore::ReadHeader(SnapshotId id, ShardIndex part) const {
  CAPSTAN_ASSIGN_OR_RETURN(const StoredPart* const found, Find(id, part));
  return found->header;
}

Status MemorySnapshotStore::ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                                      std::span<std::byte> out) const {
  CAPSTAN_ASSIGN_OR_RETURN(const StoredPart* const found, Find(id, part));
  const SnapshotHeader& header = *found->header;
  const SnapshotHeader::BlockEntry* entry = header.Find(block);
  if (entry == nullptr || array >= header.array_count) {
    return Invalid(NameOfPart(id, part) + " has no array " + std::to_string(array) + " of block " +
                   std::to_string(block));
  }
  const std::size_t at = static_cast<std::size_t>(entry - header.blocks.data()) * header.array_count + array;
  const std::vector<std::byte>& bytes = found->arrays[at];
  if (bytes.size() != out.size()) return Corrupt(NameOfPart(id, part) + ": an array of another size than asked for");
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return {};
}

Status MemorySnapshotStore::Remove(SnapshotId id, ShardIndex part) {
  if (parts_.erase({id, part}) == 0) return Invalid(NameOfPart(id, part) + " is not here");
  return {};
}

bool MemorySnapshotStore::DamageNewest() {
  for (auto newest = parts_.rbegin(); newest != parts_.rend(); ++newest) {
    for (std::vector<std::byte>& bytes : newest->second.arrays) {
      if (bytes.empty()) continue;
      bytes[bytes.size() / 2] ^= std::byte{1};
      return true;
    }
  }
  return false;
}

void MemorySnapshotStore::AddPartsOf(const MemorySnapshotStore& other) {
  parts_.insert(other.parts_.begin(), other.parts_.end());
}

}  // namespace capstan::server
