#include "tests/sim/disk.h"

#include <cstring>

#include "common/hash.h"

namespace capstan::sim {

using server::SnapshotHeader;
using server::SnapshotImage;

Status SimDisk::Remember(const server::ShardLife& life) {
  life_ = life;
  return {};
}

std::vector<SnapshotPart> SimDisk::List() const {
  std::vector<SnapshotPart> list;
  for (const auto& [key, part] : parts_) list.push_back({key.first, key.second, part.header.Digest()});
  for (const SimDisk* orphan : orphans_) {
    for (const SnapshotPart& part : orphan->List()) list.push_back(part);
  }
  return list;
}

Result<server::SnapshotStore::Written> SimDisk::Write(SnapshotImage image, const std::atomic<bool>& cancelled) {
  if (cancelled.load()) return Refused("cancelled");
  if (full_) return Unreachable("the disk is full");
  Part part;
  Written written;
  part.header = std::move(image.header);
  for (std::size_t i = 0; i < part.header.blocks.size(); ++i) {
    SnapshotHeader::Block& block = part.header.blocks[i];
    for (std::uint32_t array = 0; array < part.header.array_count; ++array) {
      const std::span<const std::byte> bytes = image.arrays[i][array].bytes();
      block.hashes[array] = Hash64(bytes);
      part.arrays[{block.block, array}].assign(bytes.begin(), bytes.end());
      written.bytes += bytes.size();
    }
  }
  written.digest = part.header.Digest();
  const std::pair key{part.header.id, part.header.part};
  parts_.insert_or_assign(key, std::move(part));
  return written;
}

const SimDisk::Part* SimDisk::Find(SnapshotId id, ShardIndex part) const {
  const auto found = parts_.find({id, part});
  if (found != parts_.end()) return &found->second;
  for (const SimDisk* orphan : orphans_) {
    if (const Part* there = orphan->Find(id, part)) return there;
  }
  return nullptr;
}

Result<SnapshotHeader> SimDisk::ReadHeader(SnapshotId id, ShardIndex part) const {
  const Part* found = Find(id, part);
  if (found == nullptr) return Invalid("no such part");
  return found->header;
}

Status SimDisk::ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                          std::span<std::byte> out) const {
  const Part* found = Find(id, part);
  if (found == nullptr) return Invalid("no such part");
  const auto bytes = found->arrays.find({block, array});
  if (bytes == found->arrays.end() || bytes->second.size() != out.size()) return Corrupt("no such array");
  std::memcpy(out.data(), bytes->second.data(), out.size());
  return {};
}

Status SimDisk::Remove(SnapshotId id, ShardIndex part) {
  parts_.erase({id, part});
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
