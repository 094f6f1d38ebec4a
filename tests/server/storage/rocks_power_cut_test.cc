// A shard's databases as a power cut would leave them after an fsync that failed.
#include <cerrno>

#include "server/storage/rocks_push_log.h"
#include "server/storage/rocks_snapshot_store.h"
#include "server/storage/shard_identity.h"
#include "tests/catch.h"
#include "tests/disk_calls/disk_calls.h"
#include "tests/server/storage/push_log_tools.h"
#include "tests/server/storage/storage_tools.h"
#include "tests/temp_folder.h"

namespace capstan::server {
namespace {

using Kind = testing::DiskCalls::Call::Kind;
using testing::DiskCalls;

// Returns the files and names that were not made durable, except files that are never read: locks, and options that are
// written again.
std::vector<std::string> NotDurable(DiskCalls& calls) {
  std::vector<std::string> bad = calls.NotDurable();
  std::erase_if(bad, [](const std::string& line) {
    return line.find("/LOCK") != line.npos || line.find("/OWNER") != line.npos || line.find("/OPTIONS-") != line.npos;
  });
  return bad;
}

int FailEachSync(const DiskCalls::Call& call) { return call.kind == Kind::kSync ? EIO : 0; }

TEST_CASE("a shard's directory that is opened again after a failed fsync rests on nothing that was not synced",
          "[server][power_cut][rocks]") {
  const TempFolder folder;
  DiskCalls calls(folder.path());
  auto store = RocksSnapshotStore::Open(folder.path() + "/snapshots", 0, 0).value();
  ShardIdentity identity = store->identity();
  identity.term = {1};
  REQUIRE(store->PersistIdentity(identity).ok());
  const auto kept = store->Write(MakeImage({{1}, {1}}, 0), kNotCancelled);
  REQUIRE(kept.ok());
  CHECK(NotDurable(calls) == std::vector<std::string>());
  for (std::uint64_t term = 2; term < 6; ++term) {
    calls.fail = FailEachSync;
    identity.term = {term};
    CHECK_FALSE(store->PersistIdentity(identity).ok());
    CHECK_FALSE(store->Write(MakeImage({{1}, {term}}, 0), kNotCancelled).ok());
    calls.fail = nullptr;
    REQUIRE(store->PersistIdentity(identity).message() == "");
    REQUIRE(store->Write(MakeImage({{1}, {term}}, 0), kNotCancelled).status().message() == "");
    CHECK(NotDurable(calls) == std::vector<std::string>());
  }
  store.reset();
  store = RocksSnapshotStore::Open(folder.path() + "/snapshots", 0, 0).value();
  CHECK(store->identity() == identity);
  CHECK(store->List().size() == 5);
  CHECK(LoadAndCompare(store.get(), {{1}, {1}}, 0, kept->digest).message() == "");
}

TEST_CASE("a shard's log that is opened again after a failed fsync rests on nothing that was not synced",
          "[server][power_cut][rocks]") {
  const TempFolder folder;
  DiskCalls calls(folder.path());
  auto log = RocksPushLog::Open(folder.path(), 20'000).value();
  REQUIRE(log->Begin(kLogTimeline).ok());
  std::uint64_t next = 1;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 10; ++i, next += 3) {
      REQUIRE(log->Append(kLogTimeline.id, next, MakeRecords(next, 3)).message() == "");
      REQUIRE(NotDurable(calls) == std::vector<std::string>());
    }
    calls.fail = FailEachSync;
    CHECK_FALSE(log->Append(kLogTimeline.id, next, MakeRecords(next, 3)).ok());
    calls.fail = nullptr;
  }
  REQUIRE(log->Append(kLogTimeline.id, next, MakeRecords(next, 3)).message() == "");
  CHECK(NotDurable(calls) == std::vector<std::string>());
  CHECK(ReadAll(log.get(), 1)->size() == next + 2);
}

}  // namespace
}  // namespace capstan::server
