// A disk of a few megabytes, really full. It is mounted, so it takes root; elsewhere this exits with 77.
#include <catch2/catch.hpp>
#include <sys/mount.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "server/file_coordinator_log.h"
#include "server/rocks_snapshot_store.h"
#include "tests/server_storage/storage_tools.h"

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
  // To the last byte.
  void Fill() const {
    std::ofstream file(path() + "/filler", std::ios::binary);
    const std::string block(4096, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  void Empty() const { std::filesystem::remove(path() + "/filler"); }

 private:
  TempFolder folder_;
};

constexpr ImageShape kShape{.block_count = 16, .elements = 65536, .array_count = 2, .slot_count = 1};  // 8 MiB

// The first array of a block, whose memory fills the disk when it has been written and is let go of.
Slice FillingSlice(const SmallDisk* disk, const Slice& like) {
  static std::vector<std::byte> memory;
  memory.assign(like.data, like.data + like.size);
  const auto fill = [](void* context) { static_cast<const SmallDisk*>(context)->Fill(); };
  return WholeBuffer(WrapForeign(memory.data(), memory.size(), fill, const_cast<SmallDisk*>(disk)));
}

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
  CHECK(too_large.code() == Code::kUnreachable);
  CHECK(too_large.message().find(disk.path()) == 0);
  CHECK(too_large.message().find("make room") != std::string::npos);
  CHECK(store->List() == before);

  SnapshotImage image = MakeImage({{1}, {2}}, 0, kShape);
  image.arrays[when][0] = FillingSlice(&disk, image.arrays[when][0]);
  const Status full = store->Write(std::move(image), kNotCancelled).status();
  INFO(full.ToString());
  CHECK(full.code() == Code::kUnreachable);
  CHECK(store->List() == before);
  CHECK(LoadAndCompare(store.get(), {{1}, {1}}, 0, kept->digest, kShape).message() == "");
  ShardLife life;
  (void)store->Remember(life);  // there may be room for it or not
  store.reset();

  disk.Empty();
  store = RocksSnapshotStore::Open(disk.path() + "/snapshots", 0, 0).value();
  CHECK(store->List() == before);
  CHECK(LoadAndCompare(store.get(), {{1}, {1}}, 0, kept->digest, kShape).message() == "");
}

TEST_CASE("when there is room again, the same store writes again", "[server][storage]") {
  const SmallDisk disk;
  auto store = RocksSnapshotStore::Open(disk.path() + "/snapshots", 0, 0).value();
  SnapshotImage image = MakeImage({{1}, {1}}, 0, kShape);
  image.arrays[15][0] = FillingSlice(&disk, image.arrays[15][0]);
  CHECK(store->Write(std::move(image), kNotCancelled).status().code() == Code::kUnreachable);
  disk.Fill();
  ShardLife life;
  for (std::uint64_t term = 1; term < 400 && store->Remember(life).ok(); ++term) life.term = {term};
  disk.Empty();
  life.term = {1000};
  CHECK(store->Remember(life).message() == "");
  const auto written = store->Write(MakeImage({{1}, {1}}, 0, kShape), kNotCancelled);
  REQUIRE(written.status().message() == "");
  store.reset();
  store = RocksSnapshotStore::Open(disk.path() + "/snapshots", 0, 0).value();
  CHECK(store->life() == life);
  CHECK(LoadAndCompare(store.get(), {{1}, {1}}, 0, written->digest, kShape).message() == "");
}

TEST_CASE("a log on a full disk refuses, and has what it promised when there is room", "[server][storage]") {
  const SmallDisk disk;
  const std::string path = disk.path() + "/log";
  auto log = FileCoordinatorLog::Open(path, 0).value();
  disk.Fill();
  std::uint64_t promised = 0;
  while (promised < 10000 && log->Append(TermRecord{{promised + 1}}).ok()) ++promised;
  REQUIRE(promised < 10000);
  disk.Empty();
  CHECK(log->Append(TermRecord{{promised + 1}}).code() == Code::kUnreachable);
  log.reset();
  CHECK(FileCoordinatorLog::Open(path, 0).value()->records().size() == promised);
}

}  // namespace
}  // namespace capstan::server
