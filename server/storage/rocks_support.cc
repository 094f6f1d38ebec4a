#include "server/storage/rocks_support.h"

#include <rocksdb/file_system.h>
#include <rocksdb/table.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

namespace capstan::server {

namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

class PrivateFileSystem : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;

  const char* Name() const override { return "PrivateFileSystem"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file, IODebugContext* context) override {
    return MakePrivate(path, target()->NewWritableFile(path, options, file, context));
  }
  IOStatus LockFile(const std::string& path, const IOOptions& options, rocksdb::FileLock** lock,
                    IODebugContext* context) override {
    return MakePrivate(path, target()->LockFile(path, options, lock, context));
  }

 private:
  static IOStatus MakePrivate(const std::string& path, IOStatus made) {
    if (!made.ok() || chmod(path.c_str(), 0600) == 0) return made;
    return IOStatus::IOError(path, std::strerror(errno));
  }
};

// A logger that drops everything. RocksDB returns failures as statuses, so no log is needed. RocksDB would end the
// process if its log file met a full disk.
class NoLogger : public rocksdb::Logger {
 public:
  NoLogger() : Logger(rocksdb::InfoLogLevel::FATAL_LEVEL) {}
  using Logger::Logv;
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

}  // namespace

std::unique_ptr<rocksdb::Env> CreatePrivateEnv() {
  return rocksdb::NewCompositeEnv(std::make_shared<PrivateFileSystem>(rocksdb::FileSystem::Default()));
}

rocksdb::Options StrictOptions(rocksdb::Env* env) {
  rocksdb::Options options;
  options.env = env;
  options.paranoid_checks = true;
  options.track_and_verify_wals_in_manifest = true;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.compression = rocksdb::kNoCompression;
  options.bytes_per_sync = std::uint64_t{4} << 20;
  options.write_buffer_size = std::size_t{1} << 20;
  options.max_open_files = 64;
  options.max_background_jobs = 2;
  options.max_manifest_file_size = std::size_t{1} << 20;
  // Our manifest has a few KiB. RocksDB would reserve 4 MiB for it, which a small disk may lack for the next snapshot.
  options.manifest_preallocation_size = std::size_t{64} << 10;
  options.info_log = std::make_shared<NoLogger>();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = true;
  table.checksum = rocksdb::kXXH3;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

rocksdb::Options SnapshotOptions(rocksdb::Env* env) {
  rocksdb::Options options = StrictOptions(env);
  options.disable_auto_compactions = true;
  return options;
}

std::string ArrayKey(BlockIndex block, std::uint32_t array) {
  std::string key;
  for (int shift = 24; shift >= 0; shift -= 8) key += static_cast<char>(block >> shift & 0xFF);
  return key += static_cast<char>(array);
}

std::string HeaderKey() { return std::string(8, '\xFF'); }

Status FromRocks(const rocksdb::Status& status, const std::string& where) {
  if (status.ok()) return {};
  if (status.IsNoSpace() || status.ToString().find("No space left on device") != std::string::npos) {
    return {Code::kBusy, where + ": no space left on device; make room there, or give another run directory"};
  }
  const std::string message = where + ": RocksDB says \"" + status.ToString() + "\"";
  if (status.IsCorruption()) return Corrupt(message);
  if (status.IsNotFound()) return Invalid(message);
  return Unreachable(message);
}

}  // namespace capstan::server
