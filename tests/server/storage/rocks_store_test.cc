#include <rocksdb/db.h>
#include <sys/stat.h>

#include "server/storage/rocks_push_log.h"
#include "server/storage/rocks_snapshot_store.h"
#include "tests/catch.h"
#include "tests/server/storage/storage_tools.h"
#include "tests/tier.h"

namespace capstan::server {
namespace {

namespace files = std::filesystem;

SnapshotId Id(std::uint64_t generation, std::uint64_t version) { return {{generation}, {version}}; }

Result<std::unique_ptr<SnapshotStore>> Open(const std::string& run, ShardIndex shard = 0,
                                            const std::vector<ShardIndex>& orphans = {}) {
  return RocksSnapshotStore::Open(run + "/snapshots", shard, 0, orphans);
}

ShardIdentity SomeIdentity(ShardIndex shard = 0) {
  ShardIdentity identity;
  identity.job = {3, 4};
  identity.shard = shard;
  identity.term = {5};
  identity.newest_retained = Id(2, 20);
  return identity;
}

// Makes a shard's directory with its identity and two snapshots. Returns the parts with their digests.
std::vector<SnapshotPart> MakeDirectory(const std::string& run, ShardIndex shard = 0, ImageShape shape = {}) {
  auto store = Open(run, shard);
  REQUIRE(store.status().message() == "");
  REQUIRE(store.value()->PersistIdentity(SomeIdentity(shard)).ok());
  for (const SnapshotId id : {Id(1, 10), Id(2, 20)}) {
    REQUIRE(store.value()->Write(MakeImage(id, shard, shape), kNotCancelled).ok());
  }
  return store.value()->List();
}

TEST_CASE("a directory that is opened again has its life and its snapshots", "[server][storage][rocks]") {
  const TempFolder run;
  const std::vector<SnapshotPart> parts = MakeDirectory(run.path());
  REQUIRE(parts.size() == 2);
  for (int i = 0; i < 3; ++i) {
    auto store = Open(run.path());
    REQUIRE(store.ok());
    CHECK(store.value()->identity() == SomeIdentity());
    CHECK(store.value()->List() == parts);
    for (const SnapshotPart& part : parts) {
      CHECK(LoadAndCompare(store.value().get(), part.id, 0, part.digest).message() == "");
    }
  }
}

TEST_CASE("everything in a directory is its owner's alone", "[server][storage][rocks]") {
  const TempFolder run;
  MakeDirectory(run.path());
  auto store = Open(run.path());
  int seen = 0;
  for (const auto& entry : files::recursive_directory_iterator(run.path())) {
    struct stat info {};
    REQUIRE(stat(entry.path().c_str(), &info) == 0);
    INFO(entry.path());
    CHECK((info.st_mode & 0777) == (entry.is_directory() ? 0700 : 0600));
    ++seen;
  }
  CHECK(seen > 10);
}

TEST_CASE("a directory reserves little of the disk beyond its files", "[server][storage][rocks]") {
  const TempFolder run;
  MakeDirectory(run.path());
  const auto store = Open(run.path());
  REQUIRE(store.status().message() == "");
  std::int64_t reserved = 0, used = 0;
  for (const auto& entry : files::recursive_directory_iterator(run.path())) {
    struct stat info {};
    REQUIRE(stat(entry.path().c_str(), &info) == 0);
    if (!entry.is_regular_file()) continue;
    reserved += info.st_blocks * 512;
    used += info.st_size;
  }
  INFO(used << " bytes in files, " << reserved << " of the disk");
  CHECK(used > 0);
  CHECK(reserved - used < std::int64_t{3} << 19);  // RocksDB reserves 1.1 MiB for the write-ahead log
}

TEST_CASE("a directory that is in use is not opened a second time", "[server][storage][rocks]") {
  const TempFolder run;
  auto first = Open(run.path());
  REQUIRE(first.ok());
  const Status second = Open(run.path()).status();
  CHECK(second.code() == Code::kUnreachable);
  CHECK(second.message().find(run.path() + "/snapshots/shard-0") == 0);
  CHECK(Open(run.path(), 1).ok());
  first.value().reset();
  CHECK(Open(run.path()).ok());
}

TEST_CASE("another shard's directory is refused, and another shard's part is not believed",
          "[server][storage][rocks]") {
  const TempFolder run;
  MakeDirectory(run.path(), 0);
  const std::string folder = run.path() + "/snapshots";
  files::rename(folder + "/shard-0", folder + "/shard-1");
  const Status status = Open(run.path(), 1).status();
  CHECK(status.code() == Code::kInvalid);
  CHECK(status.message().find(folder + "/shard-1") == 0);
  auto store = Open(run.path(), 7);
  REQUIRE(store.ok());
  CHECK(store.value()->Write(MakeImage(Id(1, 1), 6), kNotCancelled).status().code() == Code::kInvalid);
  store.value().reset();
  auto orphan = Open(run.path(), 7, {1});  // its header says part 0
  REQUIRE(orphan.ok());
  CHECK(orphan.value()->List().empty());
  CHECK(orphan.value()->ReadHeader(Id(1, 10), 1).status().code() == Code::kCorrupt);
}

std::vector<std::string> Families(const std::string& path) {
  std::vector<std::string> names;
  REQUIRE(rocksdb::DB::ListColumnFamilies({}, path, &names).ok());
  return names;
}

TEST_CASE("an orphan's folder goes with its last snapshot, but not with a log of pushes in it", "[server][storage]") {
  for (const bool has_log : {false, true}) {
    const TempFolder run;
    const std::string folder = run.path() + "/snapshots/shard-1";
    REQUIRE(Open(run.path(), 1).value()->Write(MakeImage(Id(1, 10), 1), kNotCancelled).ok());
    if (has_log) REQUIRE(RocksPushLog::Open(folder).ok());
    auto store = Open(run.path(), 0, {1}).value();
    REQUIRE(store->List().size() == 1);
    REQUIRE(store->Remove(Id(1, 10), 1).ok());
    CHECK(store->List().empty());
    CHECK(files::exists(folder) == has_log);
    CHECK(files::exists(folder + "/pushes") == has_log);
  }
}

TEST_CASE("what a process left half done is cleared away", "[server][storage][rocks]") {
  const TempFolder run;
  const std::vector<SnapshotPart> parts = MakeDirectory(run.path());
  const std::string path = run.path() + "/snapshots/shard-0";
  WriteWholeFile(path + "/incoming/first.sst", "half a file");
  {
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (const std::string& name : Families(path)) families.emplace_back(name, rocksdb::ColumnFamilyOptions());
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* database = nullptr;
    REQUIRE(rocksdb::DB::Open({}, path, families, &handles, &database).ok());
    const std::unique_ptr<rocksdb::DB> owner(database);
    for (const char* name : {"g2-v30", "g1-v10-r1", "no name of ours"}) {
      handles.push_back(nullptr);
      REQUIRE(database->CreateColumnFamily({}, name, &handles.back()).ok());
    }
    for (rocksdb::ColumnFamilyHandle* handle : handles) REQUIRE(database->DestroyColumnFamilyHandle(handle).ok());
  }
  REQUIRE(Families(path).size() == 6);
  CHECK(Open(run.path(), 1, {0}).value()->List() == parts);  // opened only for reading, so nothing is cleared
  REQUIRE(Families(path).size() == 6);
  CHECK(Open(run.path()).value()->List() == parts);
  CHECK(Families(path).size() == 3);
  CHECK(files::is_empty(path + "/incoming"));
}

TEST_CASE("a part whose header is damaged is not listed, and goes when the next one is written",
          "[server][storage][rocks]") {
  const TempFolder run;
  const std::vector<SnapshotPart> parts = MakeDirectory(run.path());
  const std::string path = run.path() + "/snapshots/shard-0";
  const std::string stated = "\"id\":[2,20]";
  int damaged = 0;
  for (const auto& entry : files::directory_iterator(path)) {
    std::string bytes = entry.path().extension() == ".sst" ? ReadWholeFile(entry.path()) : "";
    const std::size_t at = bytes.find(stated);
    if (at == std::string::npos) continue;
    bytes[at] ^= 1;
    WriteWholeFile(entry.path(), bytes);
    ++damaged;
  }
  REQUIRE(damaged == 1);
  auto store = Open(run.path()).value();
  CHECK(store->List() == std::vector<SnapshotPart>{parts[0]});
  CHECK(store->ReadHeader(parts[1].id, 0).status().code() == Code::kCorrupt);
  CHECK(Families(path).size() == 3);
  REQUIRE(store->Write(MakeImage(Id(2, 20), 0), kNotCancelled).ok());
  CHECK(store->List() == parts);
  store.reset();
  CHECK(Families(path).size() == 3);
  CHECK(Open(run.path()).value()->List() == parts);
}

TEST_CASE("a database that lost the file it begins with is not created afresh", "[server][storage][rocks]") {
  const TempFolder run;
  MakeDirectory(run.path());
  files::remove(run.path() + "/snapshots/shard-0/CURRENT");
  CHECK(Open(run.path()).status().code() == Code::kCorrupt);
}

TEST_CASE("folders that no shard owns any more are found by their numbers", "[server][storage][rocks]") {
  const TempFolder run;
  for (const char* name : {"shard-0", "shard-1", "shard-12", "shard-3", "shard-03", "shard-", "shard-4x", "other-5"}) {
    files::create_directory(run.path() + "/" + name);
  }
  WriteWholeFile(run.path() + "/shard-9", "a file");
  CHECK(FindOrphans(run.path(), 1) == std::vector<ShardIndex>{1, 3, 12});
  CHECK(FindOrphans(run.path(), 13).empty());
  CHECK(FindOrphans(run.path() + "/nowhere", 0).empty());
}

TEST_CASE("parts of shards that are no more are read, and their folder goes with the last one",
          "[server][storage][rocks]") {
  const TempFolder run;
  const std::vector<SnapshotPart> own = MakeDirectory(run.path(), 0), left = MakeDirectory(run.path(), 2);
  const std::string folder = run.path() + "/snapshots";
  auto store = Open(run.path(), 0, FindOrphans(folder, 1)).value();
  std::vector<SnapshotPart> all = own;
  all.insert(all.end(), left.begin(), left.end());
  CHECK(store->List() == all);
  for (const SnapshotPart& part : all) {
    CHECK(LoadAndCompare(store.get(), part.id, part.part, part.digest).message() == "");
  }
  CHECK(store->Remove(Id(5, 5), 2).code() == Code::kInvalid);
  REQUIRE(store->Remove(left[0].id, 2).ok());
  CHECK(store->List() == std::vector<SnapshotPart>{own[0], own[1], left[1]});
  CHECK(LoadAndCompare(store.get(), left[1].id, 2, left[1].digest).message() == "");
  REQUIRE(store->Remove(left[1].id, 2).ok());
  CHECK(store->List() == own);
  CHECK_FALSE(files::exists(folder + "/shard-2"));
  store.reset();
  CHECK(Open(run.path(), 0, {2}).ok());
}

struct FlipCount {
  int flips = 0, noticed = 0;
};

// Flips one bit of one file, and checks that a reader gets right contents or an error.
void FlipAndLook(const std::string& run, const std::string& file, std::size_t at, const SnapshotPart& part,
                 const ImageShape& shape, FlipCount* count) {
  const std::string bytes = ReadWholeFile(file);
  std::string bad = bytes;
  bad[at] ^= 0x10;
  WriteWholeFile(file, bad);
  ++count->flips;
  auto store = Open(run);
  Status status = store.status();
  if (status.ok()) {
    if (store.value()->identity() != SomeIdentity()) status = Corrupt("WRONG LIFE was called good");
    const Status loaded = LoadAndCompare(store.value().get(), part.id, 0, part.digest, shape);
    if (status.ok()) status = loaded;
  }
  INFO(file << " at " << at << ": " << status.ToString());
  CHECK(status.message().find("WRONG") == std::string::npos);
  if (!status.ok()) ++count->noticed;
}

TEST_CASE("no flipped bit of a directory becomes a wrong weight or a wrong life", "[server][storage][rocks]") {
  const TempFolder run;
  const ImageShape shape{.block_count = 3, .elements = 40, .array_count = 2, .slot_count = 2};
  const SnapshotPart part = MakeDirectory(run.path(), 0, shape).back();
  const std::string folder = run.path() + "/snapshots";
  const std::string whole = run.path() + "/whole";
  files::copy(folder, whole, files::copy_options::recursive);
  std::vector<std::string> tables, others;
  for (const auto& entry : files::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file() || entry.file_size() == 0 || name.starts_with("LOG")) continue;
    (name.ends_with(".sst") ? tables : others).push_back(entry.path());
  }
  REQUIRE(tables.size() == 6);
  FlipCount in_tables, in_others;
  RandomStream random(21 + testing::TestSeed());
  const int tries = 3 * testing::TriesOfTier(70);
  for (int i = 0; i < tries; ++i) {
    const std::vector<std::string>& list = i % 3 < 2 ? tables : others;
    const std::string& file = list[random.Below(list.size())];
    FlipAndLook(run.path(), file, random.Below(files::file_size(file)), part, shape,
                i % 3 < 2 ? &in_tables : &in_others);
    files::remove_all(folder);
    files::copy(whole, folder, files::copy_options::recursive);
  }
  // Half of the flips in tables hit the other snapshot, some hit bytes that nobody reads.
  const bool many = testing::TestTier() == testing::Tier::kAll;
  CHECK(in_tables.noticed > (many ? in_tables.flips / 4 : 0));
  CHECK(in_others.noticed > (many ? in_others.flips / 4 : 0));
}

}  // namespace
}  // namespace capstan::server
