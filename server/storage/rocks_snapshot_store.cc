#include "server/storage/rocks_snapshot_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/base/durable_file.h"
#include "server/storage/rocks_folder.h"
#include "server/storage/rocks_push_log.h"
#include "server/storage/rocks_support.h"
#include "server/storage/shard_identity.h"
#include "server/storage/verified_read.h"

namespace capstan::server {

namespace {

constexpr char kStoreName[] = "the snapshot store";

using Access = RocksFolder::Access;

class Store : public SnapshotStore {
 public:
  Store(std::unique_ptr<RocksFolder> own, std::vector<std::unique_ptr<RocksFolder>> orphans,
        const ShardIdentity& identity)
      : own_(std::move(own)), orphans_(std::move(orphans)), identity_(identity) {}

  const ShardIdentity& identity() const override { return identity_; }

  Status PersistIdentity(const ShardIdentity& identity) override {
    return WithoutExceptions(kStoreName, [&]() -> Status {
      CAPSTAN_RETURN_IF_ERROR(own_->WriteIdentity(identity));
      identity_ = identity;
      return {};
    });
  }

  std::vector<SnapshotPart> List() const override {
    std::vector<SnapshotPart> list = own_->List();
    for (const auto& orphan : orphans_) {
      const std::vector<SnapshotPart> more = orphan->List();
      list.insert(list.end(), more.begin(), more.end());
    }
    return list;
  }

  Result<Written> Write(SnapshotImage image, const std::atomic<bool>& cancelled) override {
    return WithoutExceptions(kStoreName, [&] { return own_->Write(std::move(image), cancelled); });
  }

  Result<SharedHeader> ReadHeader(SnapshotId id, ShardIndex part) const override {
    return WithoutExceptions(kStoreName, [&]() -> Result<SharedHeader> {
      const RocksFolder* folder = FolderWith(part);
      if (folder == nullptr) return Invalid(NameOfPart(id, part) + " is not here");
      return folder->ReadHeader(id);
    });
  }

  Status ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                   std::span<std::byte> out) const override {
    return WithoutExceptions(kStoreName, [&]() -> Status {
      const RocksFolder* folder = FolderWith(part);
      if (folder == nullptr) return Invalid(NameOfPart(id, part) + " is not here");
      return folder->ReadArray(id, block, array, out);
    });
  }

  Status Remove(SnapshotId id, ShardIndex part) override {
    return WithoutExceptions(kStoreName, [&]() -> Status {
      if (part == own_->part()) return own_->Remove(id);
      for (std::size_t i = 0; i < orphans_.size(); ++i) {
        if (orphans_[i]->part() == part) return RemoveFromOrphan(i, id);
      }
      return Invalid(NameOfPart(id, part) + " is not here");
    });
  }

 private:
  const RocksFolder* FolderWith(ShardIndex part) const {
    if (part == own_->part()) return own_.get();
    for (const auto& orphan : orphans_) {
      if (orphan->part() == part) return orphan.get();
    }
    return nullptr;
  }

  // Removes a part from an orphan's directory, which is open only for reading, so it is opened for writing first.
  Status RemoveFromOrphan(std::size_t index, SnapshotId id) {
    CAPSTAN_ASSIGN_OR_RETURN(const SharedHeader known, orphans_[index]->ReadHeader(id));
    const std::string path = orphans_[index]->path();
    const ShardIndex part = known->part;
    CAPSTAN_ASSIGN_OR_RETURN(std::unique_ptr<RocksFolder> writable, RocksFolder::Open(path, part, Access::kWrite, 0));
    CAPSTAN_RETURN_IF_ERROR(writable->Remove(id));
    if (!writable->empty()) {
      writable.reset();
      CAPSTAN_ASSIGN_OR_RETURN(orphans_[index], RocksFolder::Open(path, part, Access::kRead, 0));
      return {};
    }
    orphans_.erase(orphans_.begin() + static_cast<std::ptrdiff_t>(index));
    writable.reset();
    std::error_code error;
    if (std::filesystem::exists(path + kPushLogFolder, error)) return {};  // only a person may delete that log
    // A kill must not leave half of a database there. What is in incoming() is removed by the next opening.
    const std::string removed = own_->incoming() + "/removed-" + std::to_string(part);
    std::filesystem::rename(path, removed, error);
    std::filesystem::remove_all(error ? path : removed, error);  // another disk takes no rename
    return error ? Unreachable(path + ": cannot be removed: " + error.message()) : Status();
  }

  std::unique_ptr<RocksFolder> own_;
  std::vector<std::unique_ptr<RocksFolder>> orphans_;
  ShardIdentity identity_;
};

Status CheckIdentity(const ShardIdentity& identity, ShardIndex shard, const std::string& path) {
  if (identity.shard == shard) return {};
  return Invalid(path + " is the directory of shard " + std::to_string(identity.shard) +
                 "; it has been moved or copied: put the folders of the run directory back where they were");
}

Result<std::vector<std::unique_ptr<RocksFolder>>> OpenOrphans(const std::string& folder,
                                                              const std::vector<ShardIndex>& orphans) {
  std::vector<std::unique_ptr<RocksFolder>> opened;
  for (const ShardIndex orphan : orphans) {
    const std::string path = FolderOfShard(folder, orphan);
    if (!std::filesystem::exists(path + "/CURRENT")) continue;
    CAPSTAN_ASSIGN_OR_RETURN(auto one, RocksFolder::Open(path, orphan, Access::kRead, 0));
    opened.push_back(std::move(one));
  }
  return opened;
}

Result<std::unique_ptr<SnapshotStore>> OpenStore(const std::string& folder, ShardIndex shard, double wait_seconds,
                                                 const std::vector<ShardIndex>& orphans) {
  if (mkdir(folder.c_str(), 0700) == 0) {
    CAPSTAN_RETURN_IF_ERROR(SyncFolder(FolderOf(folder)));
  } else if (errno != EEXIST) {
    return Unreachable(folder + ": the folder cannot be made: " + std::strerror(errno));
  }
  const std::string path = FolderOfShard(folder, shard);
  CAPSTAN_ASSIGN_OR_RETURN(auto own, RocksFolder::Open(path, shard, Access::kWrite, wait_seconds));
  CAPSTAN_ASSIGN_OR_RETURN(const std::optional<ShardIdentity> found, own->ReadIdentity());
  ShardIdentity identity;
  identity.shard = shard;
  if (found) identity = *found;
  CAPSTAN_RETURN_IF_ERROR(CheckIdentity(identity, shard, path));
  CAPSTAN_ASSIGN_OR_RETURN(auto others, OpenOrphans(folder, orphans));
  return std::unique_ptr<SnapshotStore>(std::make_unique<Store>(std::move(own), std::move(others), identity));
}

}  // namespace

Result<std::unique_ptr<SnapshotStore>> RocksSnapshotStore::Open(const std::string& folder, ShardIndex shard,
                                                                double wait_seconds,
                                                                const std::vector<ShardIndex>& orphans) {
  return WithoutExceptions(kStoreName, [&] { return OpenStore(folder, shard, wait_seconds, orphans); });
}

std::string FolderOfShard(const std::string& folder, ShardIndex shard) {
  return folder + "/shard-" + std::to_string(shard);
}

std::vector<ShardIndex> FindOrphans(const std::string& folder, ShardIndex shard_count) {
  constexpr std::string_view kPrefix = "shard-";
  std::vector<ShardIndex> orphans;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    ShardIndex shard = 0;
    if (!name.starts_with(kPrefix) || !entry.is_directory(ignored)) continue;
    (void)std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), shard);
    if (name == std::string(kPrefix) + std::to_string(shard) && shard >= shard_count) orphans.push_back(shard);
  }
  std::sort(orphans.begin(), orphans.end());
  return orphans;
}

}  // namespace capstan::server
