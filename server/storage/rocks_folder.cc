#include "server/storage/rocks_folder.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <tuple>
#include <utility>

#include "common/base/durable_file.h"
#include "server/storage/rocks_part_writer.h"
#include "server/storage/rocks_support.h"
#include "server/storage/shard_disk.h"
#include "server/storage/shard_identity_codec.h"

namespace capstan::server {

namespace {

namespace files = std::filesystem;

constexpr const char* kIdentityKey = "life";

std::string FamilyName(SnapshotId id, std::uint64_t rewrite) {
  std::string name = "g" + std::to_string(id.generation.value) + "-v" + std::to_string(id.version.value);
  if (rewrite > 0) name += "-r" + std::to_string(rewrite);
  return name;
}

bool TakeNumber(std::string_view prefix, std::string_view* text, std::uint64_t* number) {
  if (!text->starts_with(prefix)) return false;
  const char* const begin = text->data() + prefix.size();
  const auto [end, error] = std::from_chars(begin, text->data() + text->size(), *number);
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return error == std::errc();
}

struct ParsedName {
  SnapshotId id;
  std::uint64_t rewrite = 0;
};

std::optional<ParsedName> ParseFamilyName(std::string_view text) {
  ParsedName name;
  if (!TakeNumber("g", &text, &name.id.generation.value) || !TakeNumber("-v", &text, &name.id.version.value)) {
    return std::nullopt;
  }
  if (text.empty() || (TakeNumber("-r", &text, &name.rewrite) && text.empty())) return name;
  return std::nullopt;
}

Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return SyncFolder(files::path(path).parent_path());
  if (errno == EEXIST && files::is_directory(path)) return {};
  return DiskFailure("make the folder", path, errno);
}

// Fails if CURRENT is missing but tables exist: RocksDB would make a new database over the old files.
Status CheckNotBeheaded(const std::string& path) {
  std::error_code ignored;
  if (files::exists(path + "/CURRENT")) return {};
  for (const auto& entry : files::directory_iterator(path, ignored)) {
    if (entry.path().extension() == ".sst") {
      return Corrupt(path + ": the file CURRENT is missing; put the folder back from a copy, or move it away");
    }
  }
  return {};
}

Status LockFailed(const Status& status, const std::string& path) {
  if (status.code() != Code::kBusy) return status;
  return Unreachable(path + ": another server of this job still uses this folder; end that process and try again");
}

}  // namespace

RocksFolder::RocksFolder(std::string path, ShardIndex part)
    : path_(std::move(path)), part_(part), env_(CreatePrivateEnv()) {}

RocksFolder::~RocksFolder() { Close(); }

void RocksFolder::Close() {
  if (database_ == nullptr) return;
  for (const Family& family : families_) (void)database_->DestroyColumnFamilyHandle(family.handle);
  families_.clear();
  if (identity_family_ != nullptr) (void)database_->DestroyColumnFamilyHandle(std::exchange(identity_family_, nullptr));
  (void)database_->Close();
  database_.reset();
}

Result<std::unique_ptr<RocksFolder>> RocksFolder::Open(const std::string& path, ShardIndex part, Access access,
                                                       double wait_seconds) {
  std::unique_ptr<RocksFolder> folder(new RocksFolder(path, part));
  if (access == Access::kWrite) {
    CAPSTAN_RETURN_IF_ERROR(MakeFolder(path));
    Result<FileLock> lock = FileLock::Acquire(path + "/OWNER", wait_seconds);
    if (!lock.ok()) return LockFailed(lock.status(), path);
    folder->lock_ = std::move(lock).value();
    CAPSTAN_RETURN_IF_ERROR(MakeFolder(folder->incoming()));
    folder->ClearIncoming();
  }
  CAPSTAN_RETURN_IF_ERROR(CheckNotBeheaded(path));
  const Status opened = folder->OpenDatabase(access);
  if (opened.code() == Code::kCorrupt) {
    return Corrupt(opened.message() +
                   "; put the folder back from a copy, or move it away: its snapshots are lost then");
  }
  CAPSTAN_RETURN_IF_ERROR(opened);
  return folder;
}

Status RocksFolder::OpenDatabase(Access access) {
  rocksdb::Options options = StrictOptions(env_.get());
  options.create_if_missing = access == Access::kWrite;
  std::vector<std::string> names = {rocksdb::kDefaultColumnFamilyName};
  if (files::exists(path_ + "/CURRENT")) {
    names.clear();
    CAPSTAN_RETURN_IF_ERROR(FromRocks(rocksdb::DB::ListColumnFamilies(options, path_, &names), path_));
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* database = nullptr;
  const auto open = [&] {
    std::vector<rocksdb::ColumnFamilyDescriptor> wanted;
    for (const std::string& name : names) {
      rocksdb::Options family = name == rocksdb::kDefaultColumnFamilyName ? options : SnapshotOptions(env_.get());
      family.paranoid_checks = options.paranoid_checks;
      wanted.emplace_back(name, family);
    }
    return access == Access::kWrite ? rocksdb::DB::Open(options, path_, wanted, &handles, &database)
                                    : rocksdb::DB::OpenForReadOnly(options, path_, wanted, &handles, &database);
  };
  rocksdb::Status status = open();
  const std::string said = status.ToString();
  if (said.find(".sst") != said.npos || said.find(".ldb") != said.npos) {  // RocksDB looks for either name
    // A damaged or missing table costs only the snapshot that it belongs to: reading that snapshot fails.
    options.paranoid_checks = false;
    if (open().ok()) status = rocksdb::Status::OK();
  }
  CAPSTAN_RETURN_IF_ERROR(FromRocks(status, path_));
  database_.reset(database);
  return TakeFamilies(handles, access);
}

// Stores every handle before anything can fail, so Close destroys them all.
Status RocksFolder::TakeFamilies(const std::vector<rocksdb::ColumnFamilyHandle*>& handles, Access access) {
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    if (handle->GetName() == rocksdb::kDefaultColumnFamilyName) {
      identity_family_ = handle;
      continue;
    }
    const ParsedName name = ParseFamilyName(handle->GetName()).value_or(ParsedName{});
    families_.push_back({.id = name.id, .rewrite = name.rewrite, .handle = handle, .damage = {}, .header = {}});
  }
  std::sort(families_.begin(), families_.end(), Precedes);
  for (std::size_t i = families_.size(); i-- > 0;) {
    Family& family = families_[i];
    const Result<std::string> bytes = Get(family.handle, HeaderKey());
    const bool leftover = bytes.status().code() == Code::kInvalid;
    const Family* next = i + 1 < families_.size() ? &families_[i + 1] : nullptr;
    const bool shadowed = next != nullptr && next->id == family.id && next->damage.ok();
    if (!leftover && !shadowed) {
      family.damage = bytes.status();
      if (bytes.ok()) LoadHeader(&family, bytes.value());
    } else if (access == Access::kWrite) {
      CAPSTAN_RETURN_IF_ERROR(Drop(i));
    } else {
      (void)database_->DestroyColumnFamilyHandle(family.handle);
      families_.erase(families_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return {};
}

void RocksFolder::LoadHeader(Family* family, const std::string& bytes) const {
  Result<SnapshotHeader> header = DecodeSnapshotHeader(bytes);
  if (!header.ok()) {
    family->damage = {header.status().code(), NameOf(family->id) + ": " + header.status().message()};
  } else if (header->id != family->id || header->part != part_) {
    family->damage = Corrupt(NameOf(family->id) + ": its header is that of another part");
  } else {
    family->header = std::make_shared<const SnapshotHeader>(std::move(header).value());
  }
}

std::string RocksFolder::NameOf(SnapshotId id) const { return path_ + ": snapshot " + FamilyName(id, 0); }

Result<std::string> RocksFolder::Get(rocksdb::ColumnFamilyHandle* family, const std::string& key) const {
  std::string value;
  CAPSTAN_RETURN_IF_ERROR(FromRocks(database_->Get(rocksdb::ReadOptions(), family, key, &value), path_));
  return value;
}

// ---- the shard's identity
// ----------------------------------------------------------------------------------------------

Result<std::optional<ShardIdentity>> RocksFolder::ReadIdentity() const {
  const Result<std::string> bytes = Get(identity_family_, kIdentityKey);
  if (bytes.status().code() == Code::kInvalid) return std::optional<ShardIdentity>();
  if (!bytes.ok()) return bytes.status();
  const Result<ShardIdentity> identity = DecodeShardIdentity(bytes.value());
  if (!identity.ok()) return Status(identity.status().code(), path_ + ": " + identity.status().message());
  return std::optional<ShardIdentity>(identity.value());
}

Status RocksFolder::WriteIdentity(const ShardIdentity& identity) {
  CAPSTAN_RETURN_IF_ERROR(ReopenIfBroken());
  rocksdb::WriteOptions durable;
  durable.sync = true;
  return Note(database_->Put(durable, identity_family_, kIdentityKey, EncodeShardIdentity(identity)));
}

// ---- snapshots -----------------------------------------------------------------------------------------------------

Result<const RocksFolder::Family*> RocksFolder::Find(SnapshotId id) const {
  if (database_ == nullptr) return Unreachable(path_ + ": the disk failed, and the database could not be opened again");
  const auto found =
      std::find_if(families_.begin(), families_.end(), [id](const Family& family) { return family.id == id; });
  if (found == families_.end()) return Invalid(NameOf(id) + " is not here");
  return &*found;
}

std::vector<SnapshotPart> RocksFolder::List() const {
  std::vector<SnapshotPart> list;
  for (const Family& family : families_) {
    if (family.damage.ok()) list.push_back({family.id, part_, family.header->Digest()});
  }
  return list;
}

Result<SharedHeader> RocksFolder::ReadHeader(SnapshotId id) const {
  CAPSTAN_ASSIGN_OR_RETURN(const Family* const family, Find(id));
  if (!family->damage.ok()) return family->damage;
  return family->header;
}

Status RocksFolder::ReadArray(SnapshotId id, BlockIndex block, std::uint32_t array, std::span<std::byte> out) const {
  CAPSTAN_ASSIGN_OR_RETURN(const Family* const family, Find(id));
  const std::string where = NameOf(id) + ", block " + std::to_string(block) + ", array " + std::to_string(array);
  rocksdb::PinnableSlice value;
  const rocksdb::Status read = database_->Get(rocksdb::ReadOptions(), family->handle, ArrayKey(block, array), &value);
  CAPSTAN_RETURN_IF_ERROR(FromRocks(read, where));
  if (value.size() != out.size()) {
    return Corrupt(where + ": " + std::to_string(value.size()) + " bytes in the place of " +
                   std::to_string(out.size()));
  }
  std::memcpy(out.data(), value.data(), out.size());
  return {};
}

Result<std::int64_t> RocksFolder::WrittenAt(SnapshotId id) const {
  CAPSTAN_ASSIGN_OR_RETURN(const Family* const family, Find(id));
  rocksdb::ColumnFamilyMetaData contents;
  database_->GetColumnFamilyMetaData(family->handle, &contents);
  std::int64_t newest = 0;
  for (const rocksdb::LevelMetaData& level : contents.levels) {
    for (const rocksdb::SstFileMetaData& file : level.files) {
      struct stat info {};
      if (stat((path_ + "/" + file.name).c_str(), &info) == 0) newest = std::max<std::int64_t>(newest, info.st_mtime);
    }
  }
  if (newest == 0) return Unreachable(NameOf(id) + ": its files are gone");
  return newest;
}

Result<SnapshotStore::Written> RocksFolder::Write(SnapshotImage image, const std::atomic<bool>& cancelled) {
  if (image.header.part != part_) return Invalid(path_ + ": a part of another shard is not written here");
  const std::uint64_t bytes = BytesOf(image);
  CAPSTAN_RETURN_IF_ERROR(CheckSpace(bytes));
  CAPSTAN_RETURN_IF_ERROR(ReopenIfBroken());
  Result<PartFiles> written = WritePartFiles(incoming(), SnapshotOptions(env_.get()), std::move(image), cancelled);
  Result<Family> family = written.ok() ? Ingest(written->paths, std::move(written->header)) : written.status();
  ClearIncoming();
  if (!family.ok()) return family.status();
  const SnapshotId id = family->id;
  const std::uint64_t rewrite = family->rewrite, digest = family->header->Digest();
  families_.push_back(std::move(family).value());
  std::sort(families_.begin(), families_.end(), Precedes);
  CAPSTAN_RETURN_IF_ERROR(DropReplaced(id, rewrite));
  return SnapshotStore::Written{.digest = digest, .bytes = bytes};
}

// Makes a new family from all files; adds none of them if it fails.
Result<RocksFolder::Family> RocksFolder::Ingest(const std::vector<std::string>& paths, SnapshotHeader header) {
  const Result<const Family*> old = Find(header.id);
  Family family{.id = header.id,
                .rewrite = old.ok() ? old.value()->rewrite + 1 : 0,
                .handle = nullptr,
                .damage = {},
                .header = std::make_shared<const SnapshotHeader>(std::move(header))};
  CAPSTAN_RETURN_IF_ERROR(Note(database_->CreateColumnFamily(SnapshotOptions(env_.get()),
                                                             FamilyName(family.id, family.rewrite), &family.handle)));
  rocksdb::IngestExternalFileOptions options;
  options.move_files = true;
  options.failed_move_fall_back_to_copy = false;
  options.write_global_seqno = false;
  const Status ingested = Note(database_->IngestExternalFile(family.handle, paths, options));
  if (ingested.ok()) return family;
  (void)database_->DestroyColumnFamilyHandle(family.handle);  // it has no header; the next opening removes it
  return ingested;
}

bool RocksFolder::Precedes(const Family& a, const Family& b) {
  return std::tie(a.id, a.rewrite) < std::tie(b.id, b.rewrite);
}

// Drops the families that a new snapshot replaces, and damaged ones.
Status RocksFolder::DropReplaced(SnapshotId id, std::uint64_t rewrite) {
  for (std::size_t i = families_.size(); i-- > 0;) {
    const Family& family = families_[i];
    const bool replaced = family.id == id && family.rewrite < rewrite;
    if (replaced || family.damage.code() == Code::kCorrupt) CAPSTAN_RETURN_IF_ERROR(Drop(i));
  }
  return {};
}

Status RocksFolder::Remove(SnapshotId id) {
  CAPSTAN_RETURN_IF_ERROR(ReopenIfBroken());
  CAPSTAN_ASSIGN_OR_RETURN(const Family* const family, Find(id));
  return Drop(static_cast<std::size_t>(family - families_.data()));
}

// Drops a family. RocksDB deletes its files with the last handle.
Status RocksFolder::Drop(std::size_t index) {
  CAPSTAN_RETURN_IF_ERROR(Note(database_->DropColumnFamily(families_[index].handle)));
  (void)database_->DestroyColumnFamilyHandle(families_[index].handle);
  families_.erase(families_.begin() + static_cast<std::ptrdiff_t>(index));
  return {};
}

// ---- the disk ------------------------------------------------------------------------------------------------------

Status RocksFolder::CheckSpace(std::uint64_t bytes) const {
  struct statvfs disk {};
  if (statvfs(path_.c_str(), &disk) != 0) return Unreachable(path_ + ": statvfs failed: " + std::strerror(errno));
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  const std::uint64_t needed = bytes + bytes / 10;
  if (free >= needed) return {};
  return {Code::kBusy, path_ + ": the disk is too full for a snapshot: " + std::to_string(needed) +
                           " bytes are needed and " + std::to_string(free) + " are free; make room"};
}

Status RocksFolder::Note(const rocksdb::Status& status) {
  broken_ = broken_ || !status.ok();
  return FromRocks(status, path_);
}

// Opens the database again from disk if a write has failed. If that fails, opens it for reading, and returns the error.
Status RocksFolder::ReopenIfBroken() {
  if (!broken_) return {};
  Close();
  const Status opened = OpenDatabase(Access::kWrite);
  broken_ = !opened.ok();
  if (opened.ok()) return {};
  Close();
  CAPSTAN_RETURN_IF_ERROR(OpenDatabase(Access::kRead));
  return opened;
}

void RocksFolder::ClearIncoming() const {
  std::error_code ignored;
  for (const auto& entry : files::directory_iterator(incoming(), ignored)) files::remove_all(entry.path(), ignored);
}

}  // namespace capstan::server
