// A process that uses storage until it is killed, and prints a line for each thing that the storage has promised.
//
//   server_storage_child snapshots FOLDER   writes snapshots, keeps two: "begin VERSION", "written VERSION DIGEST",
//                                           "removing VERSION"
//   server_storage_child log PATH           appends sessions: "appended NUMBER"
//   server_storage_child pushes FOLDER      appends to a shard's log, whatever is there: "appended NUMBER"
//   server_storage_child orphans FOLDER     writes a snapshot of shard 1, then removes it as shard 0 does when the job
//                                           has no shard 1 any more, again and again: "removing NUMBER"
//   server_storage_child hold FOLDER        opens the store, "open", and waits for the end of its standard input
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "server/storage/file_coordinator_log.h"
#include "server/storage/rocks_push_log.h"
#include "server/storage/rocks_snapshot_store.h"
#include "tests/server/storage/child_shape.h"
#include "tests/server/storage/push_log_tools.h"
#include "tests/server/storage/storage_tools.h"

namespace capstan::server {
namespace {

// Prints a line in one write, so that the parent reads whole lines.
void Print(const std::string& line) {
  const std::string text = line + "\n";
  CAPSTAN_CHECK(write(STDOUT_FILENO, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

int Fail(const Status& status) {
  Print("failed " + status.ToString());
  return 1;
}

int WriteSnapshots(const std::string& folder) {
  auto store = RocksSnapshotStore::Open(folder, 0, 0);
  if (!store.ok()) return Fail(store.status());
  std::vector<SnapshotPart> parts = store.value()->List();
  std::uint64_t version = parts.empty() ? 1 : parts.back().id.version.value;  // the newest snapshot is written again
  while (true) {
    const SnapshotId id{{1}, {version}};
    SnapshotImage image = MakeImage(id, 0, kChildShape);
    Print("begin " + std::to_string(version));
    const auto written = store.value()->Write(std::move(image), kNotCancelled);
    if (!written.ok()) return Fail(written.status());
    Print("written " + std::to_string(version) + " " + std::to_string(written->digest));
    parts = store.value()->List();
    for (std::size_t i = 0; i + 2 < parts.size(); ++i) {
      Print("removing " + std::to_string(parts[i].id.version.value));
      if (const Status status = store.value()->Remove(parts[i].id, 0); !status.ok()) return Fail(status);
    }
    ++version;
  }
}

// Appends to a shard's log. The log's record number n, from 1, is MakeRecord(kChildKey, n).
int AppendPushes(const std::string& folder) {
  auto log = RocksPushLog::Open(folder, 4000);
  if (!log.ok()) return Fail(log.status());
  if (log.value()->Read(kLogTimeline, 1, 1).status().code() == Code::kInvalid) {
    if (const Status status = log.value()->Begin(kLogTimeline); !status.ok()) return Fail(status);
  }
  const auto there = ReadAll(log.value().get(), 1);
  if (!there.ok()) return Fail(there.status());
  for (std::uint64_t next = there->size() + 1;; next += 3) {
    std::vector<PushLogRecord> records;
    for (std::uint64_t i = 0; i < 3; ++i) records.push_back(MakeRecord(kChildKey, next + i));
    if (const Status status = log.value()->Append(kLogTimeline.id, next, records); !status.ok()) {
      return Fail(status);
    }
    Print("appended " + std::to_string(next + 2));
  }
}

int AppendRecords(const std::string& path) {
  auto log = FileCoordinatorLog::Open(path, 0);
  if (!log.ok()) return Fail(log.status());
  for (std::uint64_t number = log.value()->records().size() + 1;; ++number) {
    if (const Status status = log.value()->Append(TermRecord{{number}}); !status.ok()) return Fail(status);
    Print("appended " + std::to_string(number));
  }
}

// The folder of shard 1 also has many hard links to one file, so that its removal takes a while. Files of their own
// would be slow to make: ext4 searches long for a free inode where many files were deleted.
int RemoveOrphans(const std::string& folder) {
  constexpr ShardIndex kOwn = 0, kOrphan = 1;
  constexpr int kOthers = 1000;
  const SnapshotId id{{1}, {1}};
  for (std::uint64_t number = 1;; ++number) {
    auto orphan = RocksSnapshotStore::Open(folder, kOrphan, 0);
    if (!orphan.ok()) return Fail(orphan.status());
    const auto written = orphan.value()->Write(MakeImage(id, kOrphan, kChildShape), kNotCancelled);
    if (!written.ok()) return Fail(written.status());
    orphan.value().reset();
    const std::string others = folder + "/shard-1/others/";
    std::filesystem::remove_all(others);
    std::filesystem::create_directories(others);
    std::ofstream(others + "0");
    for (int i = 1; i < kOthers; ++i) std::filesystem::create_hard_link(others + "0", others + std::to_string(i));

    auto own = RocksSnapshotStore::Open(folder, kOwn, 0, {kOrphan});
    if (!own.ok()) return Fail(own.status());
    Print("removing " + std::to_string(number));
    if (const Status status = own.value()->Remove(id, kOrphan); !status.ok()) return Fail(status);
  }
}

int Hold(const std::string& folder) {
  auto store = RocksSnapshotStore::Open(folder, 0, 0);
  if (!store.ok()) return Fail(store.status());
  Print("open");
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

int Main(int argc, char** argv) {
  const std::string mode = argc == 3 ? argv[1] : "";
  if (mode == "snapshots") return WriteSnapshots(argv[2]);
  if (mode == "log") return AppendRecords(argv[2]);
  if (mode == "pushes") return AppendPushes(argv[2]);
  if (mode == "orphans") return RemoveOrphans(argv[2]);
  if (mode == "hold") return Hold(argv[2]);
  return 2;
}

}  // namespace
}  // namespace capstan::server

int main(int argc, char** argv) { return capstan::server::Main(argc, argv); }
