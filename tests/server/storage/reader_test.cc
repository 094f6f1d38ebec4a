// Reading a run directory that may belong to a running job.
#include "server/storage/file_coordinator_log.h"
#include "server/storage/rocks_snapshot_reader.h"
#include "server/storage/rocks_snapshot_store.h"
#include "server/storage/sealed_text.h"
#include "tests/catch.h"
#include "tests/server/storage/storage_tools.h"

namespace capstan::server {
namespace {

constexpr std::atomic<bool> kNotCancelled{false};

SnapshotId Id(std::uint64_t generation, std::uint64_t version) { return {{generation}, {version}}; }

void Write(SnapshotStore* store, SnapshotId id, ShardIndex part) {
  REQUIRE(store->Write(MakeImage(id, part), kNotCancelled).ok());
}

// Whether each array of the part equals the one that MakeImage makes.
bool IsWhole(const SnapshotReader& reader, SnapshotId id, ShardIndex part) {
  const Result<SharedHeader> header = reader.ReadHeader(id, part);
  if (!header.ok()) return false;
  for (const SnapshotHeader::BlockEntry& block : header.value()->blocks) {
    for (std::uint32_t array = 0; array < header.value()->array_count; ++array) {
      std::vector<std::byte> have(block.count * sizeof(float)), wanted(have.size());
      FillArray(id, part, block.block, array, wanted);
      if (!reader.ReadArray(id, part, block.block, array, have).ok() || have != wanted) return false;
    }
  }
  return true;
}

TEST_CASE("parts of all shards are read while their stores are open elsewhere", "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/snapshots";
  auto first = RocksSnapshotStore::Open(path, 0, 0).value();
  auto third = RocksSnapshotStore::Open(path, 2, 0).value();
  Write(first.get(), Id(1, 5), 0);
  Write(third.get(), Id(1, 5), 2);
  const RocksSnapshotReader reader(path);
  CHECK(reader.List().size() == 2);
  CHECK(IsWhole(reader, Id(1, 5), 0));
  CHECK(IsWhole(reader, Id(1, 5), 2));
  CHECK(reader.WrittenAt(Id(1, 5), 0).value() > 1'000'000'000);
  CHECK(reader.ReadHeader(Id(1, 5), 1).status().code() == Code::kInvalid);
  CHECK(reader.ReadHeader(Id(1, 6), 0).status().code() == Code::kInvalid);

  Write(first.get(), Id(1, 6), 0);  // the servers continue undisturbed
  REQUIRE(first->Remove(Id(1, 5), 0).ok());
  CHECK(reader.List().size() == 2);
  const RocksSnapshotReader later(path);
  CHECK(later.ReadHeader(Id(1, 5), 0).status().code() == Code::kInvalid);
  CHECK(IsWhole(later, Id(1, 6), 0));
}

TEST_CASE("a shard's directory that cannot be opened spoils its own parts only", "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/snapshots";
  for (const ShardIndex shard : {0, 1}) {
    auto store = RocksSnapshotStore::Open(path, shard, 0).value();
    Write(store.get(), Id(2, 8), shard);
  }
  std::filesystem::remove(path + "/shard-1/CURRENT");
  const RocksSnapshotReader reader(path);
  CHECK(IsWhole(reader, Id(2, 8), 0));
  CHECK(reader.ReadHeader(Id(2, 8), 1).status().code() == Code::kCorrupt);
  CHECK(reader.List().size() == 1);
  CHECK(RocksSnapshotReader(folder.path() + "/nothing").List().empty());
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/nothing"));
}

TEST_CASE("a log is looked at while its coordinator has it, torn line and all", "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/log";
  auto log = FileCoordinatorLog::Open(path, 0).value();
  for (std::uint64_t term = 1; term <= 3; ++term) REQUIRE(log->Append(TermRecord{{term}}).ok());
  REQUIRE(FileCoordinatorLog::Look(path).value().size() == 3);
  const std::string whole = ReadWholeFile(path);
  WriteWholeFile(path, whole.substr(0, whole.size() - 5));
  CHECK(FileCoordinatorLog::Look(path).value().size() == 2);
  CHECK(ReadWholeFile(path).size() == whole.size() - 5);
  std::string changed = whole;
  changed[changed.size() / 2] ^= 1;
  WriteWholeFile(path, changed);
  CHECK(FileCoordinatorLog::Look(path).status().code() == Code::kCorrupt);
  WriteWholeFile(path, Seal(0, R"({"what":"capstan coordinator log","format":2})") + "\n");
  CHECK(FileCoordinatorLog::Look(path).status().code() == Code::kUnsupported);
  CHECK(FileCoordinatorLog::Look(folder.path() + "/nothing").status().code() == Code::kUnreachable);
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/nothing"));
}

TEST_CASE("records that replace a log's own are read back, and it goes on behind them", "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/log";
  auto log = FileCoordinatorLog::Open(path, 0).value();
  for (std::uint64_t term = 1; term <= 5; ++term) REQUIRE(log->Append(TermRecord{{term}}).ok());
  REQUIRE(log->Replace({TermRecord{{5}}, DoneRecord{}}).ok());
  CHECK(FileCoordinatorLog::Open(path, 0).status().code() == Code::kRefused);  // the new file is locked, too
  log.reset();
  log = FileCoordinatorLog::Open(path, 0).value();
  REQUIRE(log->records().size() == 2);
  CHECK(std::get<TermRecord>(log->records()[0]).term.value == 5);
  REQUIRE(log->Append(TermRecord{{6}}).ok());
  CHECK(FileCoordinatorLog::Look(path).value().size() == 3);
  const std::string before = ReadWholeFile(path);
  const Status refused = log->Replace({JobRecord{{1, 2}, "\xFF"}});
  CHECK(refused.code() == Code::kInvalid);
  CHECK(ReadWholeFile(path) == before);
}

}  // namespace
}  // namespace capstan::server
