// Storage on a disk of 24 MiB that is really full. Mounting the disk needs root. Without root the test exits with 77,
// or with 1 where CI is "true".
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "server/storage/file_coordinator_log.h"
#include "server/storage/rocks_push_log.h"
#include "server/storage/rocks_snapshot_store.h"
#include "tests/catch.h"
#include "tests/server/storage/push_log_tools.h"

namespace capstan::server {
namespace {

constexpr std::size_t kDiskBytes = std::size_t{24} << 20;

class SmallDisk {
 public:
  SmallDisk() {
    const std::string options = "mode=0700,size=" + std::to_string(kDiskBytes);
    if (mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, options.c_str()) == 0) return;
    std::fprintf(stderr, "SKIPPED: a full disk was not tested, because no tmpfs can be mounted here: %s\n",
                 std::strerror(errno));
    const char* ci = std::getenv("CI");
    std::exit(ci != nullptr && std::string(ci) == "true" ? 1 : 77);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() { umount2(folder_.path().c_str(), MNT_DETACH); }
  const std::string& path() const { return folder_.path(); }
  // Fills the disk to the last byte, or except for `left` bytes.
  void Fill(std::size_t left = 0) const {
    std::ofstream file(path() + "/filler", std::ios::binary);
    const std::string block(4096, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
    file.close();
    const std::size_t size = std::filesystem::file_size(path() + "/filler");
    std::filesystem::resize_file(path() + "/filler", size - std::min(size, left));
  }
  void Empty() const { std::filesystem::remove(path() + "/filler"); }

 private:
  TempFolder folder_{TempFolder::Where::kDisk};
};

constexpr ImageShape kShape{.block_count = 16, .elements = 65536, .array_count = 2, .slot_count = 1};  // 8 MiB

// An array of a snapshot. Once its memory is released, after writing, the disk is filled except for `left` bytes.
struct FillingArray {
  FillingArray(const SmallDisk* on, const Slice& like, std::size_t leave = 0)
      : disk(on), left(leave), memory(like.data, like.data + like.size) {}
  Slice Make() {
    const auto fill = [](void* context) {
      const auto* self = static_cast<const FillingArray*>(context);
      self->disk->Fill(self->left);
    };
    return WholeBuffer(WrapForeign(memory.data(), memory.size(), fill, this));
  }

  const SmallDisk* disk;
  std::size_t left;
  std::vector<std::byte> memory;
};

TEST_CASE("a disk that is full, or becomes so on the way, costs the new snapshot only", "[server][storage]") {
  const SmallDisk disk;
  auto store = RocksSnapshotStore::Open(disk.path() + "/snapshots", 0, 0).value();
  const auto kept = store->Write(MakeImage({{1}, {1}}, 0, kShape), kNotCancelled);
  REQUIRE(kept.status().message() == "");
  const std::vector<SnapshotPart> before = store->List();
  const BlockIndex when = GENERATE(0U, 7U, 15U);

  ImageShape large = kShape;
  large.block_count = 40;
  const Status too_large = store->Write(MakeImage({{1}, {2}}, 0, large), kNotCancelled).status();
  CHECK(too_large.code() == Code::kBusy);
  CHECK(too_large.message().find(disk.path()) == 0);
  CHECK(too_large.message().find("make room") != std::string::npos);
  CHECK(store->List() == before);

  SnapshotImage image = MakeImage({{1}, {2}}, 0, kShape);
  FillingArray filling(&disk, image.arrays[when][0]);
  image.arrays[when][0] = filling.Make();
  const Status full = store->Write(std::move(image), kNotCancelled).status();
  INFO(full.ToString());
  CHECK(full.code() == Code::kBusy);
  CHECK(store->List() == before);
  CHECK(LoadAndCompare(store.get(), {{1}, {1}}, 0, kept->digest, kShape).message() == "");
  ShardIdentity identity;
  (void)store->PersistIdentity(identity);  // there may be room for it or not
  store.reset();

  disk.Empty();
  store = RocksSnapshotStore::Open(disk.path() + "/snapshots", 0, 0).value();
  CHECK(store->List() == before);
  CHECK(LoadAndCompare(store.get(), {{1}, {1}}, 0, kept->digest, kShape).message() == "");
}

// Each time the disk has a little more room, so it becomes full in another place: in the last table, in the header, in
// the database's own files, or not at all.
TEST_CASE("wherever a disk becomes full, a snapshot is there whole or not at all", "[server][storage]") {
  const SmallDisk disk;
  constexpr ImageShape kSmall{.block_count = 4, .elements = 4096, .array_count = 1, .slot_count = 1};
  auto store = RocksSnapshotStore::Open(disk.path() + "/snapshots", 0, 0).value();
  std::map<SnapshotId, std::uint64_t> digests;
  int failed = 0;
  for (std::size_t left = 0; left <= 15; ++left) {
    const SnapshotId id{{1}, {left + 1}};
    SnapshotImage image = MakeImage(id, 0, kSmall);
    FillingArray filling(&disk, image.arrays[3][0], left * 4096);
    image.arrays[3][0] = filling.Make();
    const auto written = store->Write(std::move(image), kNotCancelled);
    if (written.ok()) digests[id] = written->digest;
    if (!written.ok()) CHECK(written.status().code() == Code::kBusy);
    failed += written.ok() ? 0 : 1;
    INFO(left << " pages left: " << written.status().ToString());
    if (left % 3 == 1) store.reset();  // as if the process ended, whether the disk is still full or not
    if (left % 2 == 1) disk.Empty();
    if (store == nullptr) {
      disk.Empty();
      auto opened = RocksSnapshotStore::Open(disk.path() + "/snapshots", 0, 0);
      REQUIRE(opened.status().message() == "");
      store = std::move(opened).value();
    }
    REQUIRE(store->List().size() == digests.size());
    for (const SnapshotPart& part : store->List()) {
      REQUIRE(digests.at(part.id) == part.digest);
      CHECK(LoadAndCompare(store.get(), part.id, 0, part.digest, kSmall).message() == "");
    }
    disk.Empty();
  }
  CHECK(failed > 2);
  CHECK(digests.size() > 2);
}

TEST_CASE("when there is room again, the same store writes again", "[server][storage]") {
  const SmallDisk disk;
  auto store = RocksSnapshotStore::Open(disk.path() + "/snapshots", 0, 0).value();
  SnapshotImage image = MakeImage({{1}, {1}}, 0, kShape);
  FillingArray filling(&disk, image.arrays[15][0]);
  image.arrays[15][0] = filling.Make();
  CHECK(store->Write(std::move(image), kNotCancelled).status().code() == Code::kBusy);
  disk.Fill();
  ShardIdentity identity;
  for (std::uint64_t term = 1; term < 400 && store->PersistIdentity(identity).ok(); ++term) identity.term = {term};
  disk.Empty();
  identity.term = {1000};
  CHECK(store->PersistIdentity(identity).message() == "");
  const auto written = store->Write(MakeImage({{1}, {1}}, 0, kShape), kNotCancelled);
  REQUIRE(written.status().message() == "");
  store.reset();
  store = RocksSnapshotStore::Open(disk.path() + "/snapshots", 0, 0).value();
  CHECK(store->identity() == identity);
  CHECK(LoadAndCompare(store.get(), {{1}, {1}}, 0, written->digest, kShape).message() == "");
}

TEST_CASE("a log on a full disk refuses, has what it promised, and goes on when there is room", "[server][storage]") {
  const SmallDisk disk;
  const std::string path = disk.path() + "/log";
  auto log = FileCoordinatorLog::Open(path, 0).value();
  disk.Fill();
  std::uint64_t promised = 0;
  while (promised < 10000 && log->Append(TermRecord{{promised + 1}}).ok()) ++promised;
  REQUIRE(promised < 10000);
  CHECK(log->Append(TermRecord{{promised + 1}}).code() == Code::kBusy);
  const std::uintmax_t size = std::filesystem::file_size(path);
  disk.Empty();
  CHECK(FileCoordinatorLog::Look(path).value().size() == promised);
  REQUIRE(log->Append(TermRecord{{promised + 1}}).message() == "");
  CHECK(std::filesystem::file_size(path) > size);
  log.reset();
  const auto again = FileCoordinatorLog::Open(path, 0).value();
  REQUIRE(again->records().size() == promised + 1);
  CHECK(std::get<TermRecord>(again->records().back()).term.value == promised + 1);
}

TEST_CASE("a shard's log on a full disk refuses, and goes on where it was when there is room", "[server][storage]") {
  const SmallDisk disk;
  auto log = RocksPushLog::Open(disk.path(), 20'000).value();
  REQUIRE(log->Begin(kLogTimeline).message() == "");
  std::uint64_t next = 1, failed = 0;
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < 40; ++i, next += 3) {
      REQUIRE(log->Append(kLogTimeline.id, next, MakeRecords(next, 3)).message() == "");
    }
    disk.Fill(static_cast<std::size_t>(round) * 4096);
    for (int i = 0; i < 400; ++i) {
      const Status status = log->Append(kLogTimeline.id, next, MakeRecords(next, 3));
      if (status.ok()) next += 3;
      if (status.ok()) continue;
      CHECK(status.code() == Code::kBusy);
      ++failed;
      if (i % 2 == 1) break;  // or once more on the full disk
    }
    disk.Empty();
    if (round % 2 == 1) {
      log.reset();
      auto opened = RocksPushLog::Open(disk.path(), 20'000);
      REQUIRE(opened.status().message() == "");
      log = std::move(opened).value();
    }
  }
  REQUIRE(log->Append(kLogTimeline.id, next, MakeRecords(next, 3)).message() == "");
  const auto records = ReadAll(log.get(), 1);
  REQUIRE(records.status().message() == "");
  REQUIRE(records->size() == next + 2);
  for (std::size_t i = 0; i < records->size(); ++i) {
    REQUIRE(SameRecord((*records)[i], MakeRecord(i - i % 3 + 1, i % 3)));
  }
  CHECK(failed > 3);
}

}  // namespace
}  // namespace capstan::server
