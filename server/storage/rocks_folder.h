// RocksFolder: one shard's database: its ShardIdentity, and a column family for each of its parts of snapshots.
//
// Kind:   owned by a RocksSnapshotStore.
// Fails:  kBusy: the disk is full; kUnreachable: the disk fails, or another process has the folder; kCorrupt; kInvalid:
//         not found.
// Why:    a part's arrays and its header are ingested in one atomic step. So a family without a header was left by a
//         write that did not reach that step.
//
// A family's name is g<generation>-v<version>, with -r<n> appended if the same snapshot was written again. The new
// family is complete before the old one is dropped.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/file_lock.h"
#include "common/base/status.h"
#include "server/storage/snapshot.h"
#include "server/storage/snapshot_store.h"

namespace capstan::server {

class RocksFolder {
 public:
  enum class Access { kWrite, kRead };

  // kWrite: makes the folder if there is none, locks it, and removes unfinished files.
  static Result<std::unique_ptr<RocksFolder>> Open(const std::string& path, ShardIndex part, Access access,
                                                   double wait_seconds);
  RocksFolder(const RocksFolder&) = delete;
  RocksFolder& operator=(const RocksFolder&) = delete;
  ~RocksFolder();

  const std::string& path() const { return path_; }
  ShardIndex part() const { return part_; }
  // The folder of files that no snapshot has yet. Opening for writing empties it.
  std::string incoming() const { return path_ + "/incoming"; }

  Result<std::optional<ShardIdentity>> ReadIdentity() const;
  Status WriteIdentity(const ShardIdentity& identity);

  bool empty() const { return families_.empty(); }
  std::vector<SnapshotPart> List() const;
  Result<SnapshotStore::Written> Write(SnapshotImage image, const std::atomic<bool>& cancelled);
  Result<SharedHeader> ReadHeader(SnapshotId id) const;
  Status ReadArray(SnapshotId id, BlockIndex block, std::uint32_t array, std::span<std::byte> out) const;
  Status Remove(SnapshotId id);
  // Returns when the snapshot's newest file was written, in seconds since 1970.
  Result<std::int64_t> WrittenAt(SnapshotId id) const;

 private:
  struct Family {
    SnapshotId id;
    std::uint64_t rewrite = 0;
    rocksdb::ColumnFamilyHandle* handle = nullptr;
    Status damage;  // why there is no header
    SharedHeader header;
  };

  RocksFolder(std::string path, ShardIndex part);

  Status OpenDatabase(Access access);
  Status TakeFamilies(const std::vector<rocksdb::ColumnFamilyHandle*>& handles, Access access);
  Result<std::string> Get(rocksdb::ColumnFamilyHandle* family, const std::string& key) const;
  void LoadHeader(Family* family, const std::string& bytes) const;
  static bool Precedes(const Family& a, const Family& b);
  Status DropReplaced(SnapshotId id, std::uint64_t rewrite);
  Status Drop(std::size_t index);
  Result<Family> Ingest(const std::vector<std::string>& files, SnapshotHeader header);
  Status CheckSpace(std::uint64_t bytes) const;
  Status ReopenIfBroken();
  void Close();
  Status Note(const rocksdb::Status& status);
  void ClearIncoming() const;
  Result<const Family*> Find(SnapshotId id) const;
  std::string NameOf(SnapshotId id) const;

  std::string path_;
  ShardIndex part_;
  std::optional<FileLock> lock_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> database_;
  rocksdb::ColumnFamilyHandle* identity_family_ = nullptr;
  std::vector<Family> families_;  // in ascending order of snapshots
  bool broken_ = false;           // a write has failed: the database is opened again before the next write
};

}  // namespace capstan::server
