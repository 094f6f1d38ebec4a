#include "server/storage/rocks_snapshot_reader.h"

#include <filesystem>
#include <utility>

#include "server/storage/rocks_folder.h"
#include "server/storage/rocks_snapshot_store.h"
#include "server/storage/rocks_support.h"
#include "server/storage/verified_read.h"

namespace capstan::server {

namespace {

constexpr char kSnapshotsName[] = "the snapshots";

// How often opening a folder is tried: a running server may replace and delete its files meanwhile.
constexpr int kLooksMax = 8;

Result<std::unique_ptr<RocksFolder>> OpenForReading(const std::string& path, ShardIndex shard) {
  return WithoutExceptions(kSnapshotsName, [&]() -> Result<std::unique_ptr<RocksFolder>> {
    if (!std::filesystem::exists(path + "/CURRENT")) return Corrupt(path + ": its file CURRENT is missing");
    Result<std::unique_ptr<RocksFolder>> folder = RocksFolder::Open(path, shard, RocksFolder::Access::kRead, 0);
    for (int look = 1; look < kLooksMax && !folder.ok(); ++look) {
      folder = RocksFolder::Open(path, shard, RocksFolder::Access::kRead, 0);
    }
    return folder;
  });
}

}  // namespace

RocksSnapshotReader::RocksSnapshotReader(const std::string& folder) {
  for (const ShardIndex shard : FindOrphans(folder, 0)) {
    Result<std::unique_ptr<RocksFolder>> opened = OpenForReading(folder + "/shard-" + std::to_string(shard), shard);
    Shard& entry = shards_[shard];
    entry.status = opened.status();
    if (opened.ok()) entry.folder = std::move(opened).value();
  }
}

RocksSnapshotReader::~RocksSnapshotReader() = default;

Result<const RocksFolder*> RocksSnapshotReader::FolderOf(SnapshotId id, ShardIndex part) const {
  const auto found = shards_.find(part);
  if (found == shards_.end()) return Invalid(NameOfPart(id, part) + " is not here");
  if (!found->second.status.ok()) return found->second.status;
  return found->second.folder.get();
}

std::vector<SnapshotPart> RocksSnapshotReader::List() const {
  std::vector<SnapshotPart> list;
  for (const auto& [index, shard] : shards_) {
    if (!shard.status.ok()) continue;
    const std::vector<SnapshotPart> more = shard.folder->List();
    list.insert(list.end(), more.begin(), more.end());
  }
  return list;
}

Result<SharedHeader> RocksSnapshotReader::ReadHeader(SnapshotId id, ShardIndex part) const {
  return WithoutExceptions(kSnapshotsName, [&]() -> Result<SharedHeader> {
    CAPSTAN_ASSIGN_OR_RETURN(const RocksFolder* const folder, FolderOf(id, part));
    return folder->ReadHeader(id);
  });
}

Status RocksSnapshotReader::ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                                      std::span<std::byte> out) const {
  return WithoutExceptions(kSnapshotsName, [&]() -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const RocksFolder* const folder, FolderOf(id, part));
    return folder->ReadArray(id, block, array, out);
  });
}

Result<std::int64_t> RocksSnapshotReader::WrittenAt(SnapshotId id, ShardIndex part) const {
  return WithoutExceptions(kSnapshotsName, [&]() -> Result<std::int64_t> {
    CAPSTAN_ASSIGN_OR_RETURN(const RocksFolder* const folder, FolderOf(id, part));
    return folder->WrittenAt(id);
  });
}

}  // namespace capstan::server
