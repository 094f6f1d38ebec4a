// The contract of every snapshot store, run on each of them.
#include "server/storage/memory_snapshot_store.h"
#include "server/storage/rocks_snapshot_store.h"
#include "tests/catch.h"
#include "tests/server/storage/storage_tools.h"

namespace capstan::server {
namespace {

constexpr ShardIndex kShard = 1;

struct MemoryStores {
  std::unique_ptr<SnapshotStore> Create() { return std::make_unique<MemorySnapshotStore>(); }
};
struct RocksStores {
  std::unique_ptr<SnapshotStore> Create() {
    return RocksSnapshotStore::Open(folder.path() + "/snapshots", kShard, 0).value();
  }
  TempFolder folder;
};

SnapshotId IdOf(std::uint64_t generation, std::uint64_t version) { return {{generation}, {version}}; }

SnapshotStore::Written WriteOne(SnapshotStore* store, SnapshotId id, ImageShape shape = {}) {
  const Result<SnapshotStore::Written> written = store->Write(MakeImage(id, kShard, shape), kNotCancelled);
  REQUIRE(written.status().message() == "");
  return written.value();
}

TEMPLATE_TEST_CASE("a snapshot that was written is listed and read back bit by bit", "[server][storage]", MemoryStores,
                   RocksStores) {
  TestType stores;
  const auto store = stores.Create();
  CHECK(store->List().empty());
  const ImageShape shape{.block_count = 9, .elements = 1000, .array_count = GENERATE(1U, 2U, 3U)};
  const SnapshotStore::Written written = WriteOne(store.get(), IdOf(1, 10), shape);
  CHECK(written.bytes == (9 * 1000 + 2 * 17) * 4 * shape.array_count);
  CHECK(store->List() == std::vector<SnapshotPart>{{IdOf(1, 10), kShard, written.digest}});
  CHECK(LoadAndCompare(store.get(), IdOf(1, 10), kShard, written.digest, shape).message() == "");
  const Result<SharedHeader> header = store->ReadHeader(IdOf(1, 10), kShard);
  REQUIRE(header.ok());
  CHECK(header.value()->Digest() == written.digest);
  CHECK(header.value()->job == JobId{7, 9});
  CHECK(store->ReadHeader(IdOf(1, 10), kShard).value() == header.value());  // not copied for each reader
}

TEMPLATE_TEST_CASE("a snapshot of no blocks is one all the same", "[server][storage]", MemoryStores, RocksStores) {
  TestType stores;
  const auto store = stores.Create();
  const SnapshotStore::Written written = WriteOne(store.get(), IdOf(1, 1), {.block_count = 0});
  CHECK(written.bytes == 0);
  CHECK(store->List().size() == 1);
  CHECK(LoadAndCompare(store.get(), IdOf(1, 1), kShard, written.digest, {.block_count = 0}).message() == "");
  WriteOne(store.get(), IdOf(1, 2), {.block_count = 1});
  CHECK(store->List().size() == 2);
}

TEMPLATE_TEST_CASE("several snapshots are kept apart, and each can be removed", "[server][storage]", MemoryStores,
                   RocksStores) {
  TestType stores;
  const auto store = stores.Create();
  const auto first = WriteOne(store.get(), IdOf(1, 10)), second = WriteOne(store.get(), IdOf(1, 9)),
             third = WriteOne(store.get(), IdOf(2, 9));
  CHECK(store->List() == std::vector<SnapshotPart>{{IdOf(1, 9), kShard, second.digest},
                                                   {IdOf(1, 10), kShard, first.digest},
                                                   {IdOf(2, 9), kShard, third.digest}});
  REQUIRE(store->Remove(IdOf(1, 10), kShard).ok());
  CHECK(store->List() ==
        std::vector<SnapshotPart>{{IdOf(1, 9), kShard, second.digest}, {IdOf(2, 9), kShard, third.digest}});
  CHECK(LoadAndCompare(store.get(), IdOf(1, 9), kShard, second.digest).message() == "");
  CHECK(LoadAndCompare(store.get(), IdOf(2, 9), kShard, third.digest).message() == "");
  CHECK(LoadAndCompare(store.get(), IdOf(1, 10), kShard, first.digest).code() == Code::kInvalid);
  CHECK(store->Remove(IdOf(1, 10), kShard).code() == Code::kInvalid);
  CHECK(store->Remove(IdOf(1, 9), kShard + 1).code() == Code::kInvalid);
}

TEMPLATE_TEST_CASE("a snapshot written again replaces the one of its name", "[server][storage]", MemoryStores,
                   RocksStores) {
  TestType stores;
  const auto store = stores.Create();
  const ImageShape other{.block_count = 2, .elements = 64, .array_count = 2};
  const auto before = WriteOne(store.get(), IdOf(1, 10));
  for (int i = 0; i < 3; ++i) {
    const auto after = WriteOne(store.get(), IdOf(1, 10), other);
    CHECK(after.digest != before.digest);
    CHECK(store->List() == std::vector<SnapshotPart>{{IdOf(1, 10), kShard, after.digest}});
    CHECK(LoadAndCompare(store.get(), IdOf(1, 10), kShard, after.digest, other).message() == "");
  }
  std::vector<std::byte> bytes(300 * 4);
  CHECK(store->ReadArray(IdOf(1, 10), kShard, 4 * 3 + kShard, 0, bytes).code() == Code::kInvalid);
  CHECK(store->Remove(IdOf(1, 10), kShard).ok());
  CHECK(store->List().empty());
}

// An action to run when the memory of a slice that WithRelease made is released.
struct OnRelease {
  void (*act)(void*);
  void* context;
};
Slice WithRelease(OnRelease* release, std::size_t bytes) {
  static std::vector<std::byte> memory(1 << 20);
  return WholeBuffer(WrapForeign(
      memory.data(), bytes,
      [](void* context) {
        const auto* what = static_cast<OnRelease*>(context);
        what->act(what->context);
      },
      release));
}

TEMPLATE_TEST_CASE("a snapshot that is cancelled on the way leaves nothing, and nothing else is touched",
                   "[server][storage]", MemoryStores, RocksStores) {
  TestType stores;
  const auto store = stores.Create();
  const auto kept = WriteOne(store.get(), IdOf(1, 10));
  const BlockIndex blocks = 12;
  const BlockIndex until = GENERATE(0U, 5U, 11U);  // also the last one, when everything has been written
  std::atomic<bool> cancelled{false};
  OnRelease cancel{[](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }, &cancelled};
  SnapshotImage image = MakeImage(IdOf(1, 11), kShard, {.block_count = blocks});
  image.arrays[until][0] = WithRelease(&cancel, image.arrays[until][0].size);
  const Status status = store->Write(std::move(image), cancelled).status();
  CHECK(status.code() == Code::kRefused);
  CHECK(store->List() == std::vector<SnapshotPart>{{IdOf(1, 10), kShard, kept.digest}});
  CHECK(LoadAndCompare(store.get(), IdOf(1, 10), kShard, kept.digest).message() == "");
  WriteOne(store.get(), IdOf(1, 11));
  CHECK(store->List().size() == 2);
}

TEMPLATE_TEST_CASE("a block's memory is let go of when it is written", "[server][storage]", MemoryStores, RocksStores) {
  TestType stores;
  const auto store = stores.Create();
  std::atomic<int> released{0};
  OnRelease count{[](void* counter) { ++*static_cast<std::atomic<int>*>(counter); }, &released};
  SnapshotImage image = MakeImage(IdOf(1, 1), kShard, {.block_count = 6, .array_count = 1});
  for (auto& arrays : image.arrays) arrays[0] = WithRelease(&count, arrays[0].size);
  REQUIRE(store->Write(std::move(image), kNotCancelled).ok());
  CHECK(released == 6);
}

TEMPLATE_TEST_CASE("a shard's life is what was remembered last", "[server][storage]", MemoryStores, RocksStores) {
  TestType stores;
  const auto store = stores.Create();
  CHECK(store->identity().job.IsNull());
  ShardIdentity identity;
  identity.job = {1, 2};
  identity.shard = kShard;
  for (std::uint64_t term = 1; term < 5; ++term) {
    identity.term = {term};
    REQUIRE(store->PersistIdentity(identity).ok());
    CHECK(store->identity() == identity);
  }
}

TEMPLATE_TEST_CASE("a block of another size, a wrong digest or a damaged header is not loaded", "[server][storage]",
                   MemoryStores, RocksStores) {
  TestType stores;
  const auto store = stores.Create();
  const auto written = WriteOne(store.get(), IdOf(1, 10));
  const auto load = [&](LoadSnapshot work) {
    return std::get<SnapshotLoaded>(Execute(std::move(work), store.get())).status;
  };
  const SnapshotImage like = MakeImage(IdOf(1, 10), kShard);
  CHECK(load(LoadWork(like, written.digest)).ok());
  CHECK(load(LoadWork(like, written.digest + 1)).code() == Code::kCorrupt);
  LoadSnapshot larger = LoadWork(like, written.digest);
  larger.targets[2].count -= 1;
  CHECK(load(std::move(larger)).code() == Code::kCorrupt);
  LoadSnapshot fewer = LoadWork(like, written.digest);
  fewer.targets[2].arrays[2] = {};
  CHECK(load(std::move(fewer)).code() == Code::kCorrupt);
  LoadSnapshot others = LoadWork(like, written.digest);  // blocks of another part do not concern this one
  others.targets.push_back({4000000, 5, {}});
  CHECK(load(std::move(others)).ok());
  LoadSnapshot absent = LoadWork(like, written.digest);
  absent.id = IdOf(1, 11);
  CHECK(load(std::move(absent)).code() == Code::kInvalid);
}

TEMPLATE_TEST_CASE("a peer gets a part's header and its blocks, verified", "[server][storage]", MemoryStores,
                   RocksStores) {
  TestType stores;
  const auto store = stores.Create();
  const auto written = WriteOne(store.get(), IdOf(1, 10));
  const auto read = [&](StoredBlock wanted) {
    return std::get<PeerRead>(Execute(ReadForPeer{{5}, wanted}, store.get()));
  };
  const PeerRead head = read({IdOf(1, 10), kShard, kFetchHeader});
  REQUIRE(head.status.ok());
  REQUIRE(head.arrays.size() == 1);
  const auto* text = reinterpret_cast<const char*>(head.arrays[0].data);
  const Result<SnapshotHeader> header = DecodeSnapshotHeader({text, head.arrays[0].size});
  REQUIRE(header.ok());
  CHECK(header->Digest() == written.digest);
  CHECK(head.peer == PeerId{5});
  for (const SnapshotHeader::BlockEntry& block : header->blocks) {
    const PeerRead one = read({IdOf(1, 10), kShard, block.block});
    REQUIRE(one.status.ok());
    REQUIRE(one.arrays.size() == 3);
    CHECK(one.entry.count == block.count);
    CHECK(one.entry.last == block.last);
    for (std::uint32_t a = 0; a < 3; ++a) CHECK(Hash64(one.arrays[a].bytes()) == block.hashes[a]);
  }
  CHECK(read({IdOf(1, 10), kShard, 2}).status.code() == Code::kInvalid);
  CHECK(read({IdOf(1, 10), kShard + 1, kFetchHeader}).status.code() == Code::kInvalid);
  CHECK(read({IdOf(2, 10), kShard, kFetchHeader}).status.code() == Code::kInvalid);
}

TEMPLATE_TEST_CASE("removing what is not there is no failure of a disk", "[server][storage]", MemoryStores,
                   RocksStores) {
  TestType stores;
  const auto store = stores.Create();
  WriteOne(store.get(), IdOf(1, 10));
  const DiskResult result = Execute(RemoveParts{{{IdOf(1, 9), kShard, 0}, {IdOf(1, 10), kShard, 0}}}, store.get());
  CHECK(std::get<PartsRemoved>(result).status.ok());
  CHECK(std::get<PartsRemoved>(result).parts.size() == 2);
  CHECK(store->List().empty());
}

TEST_CASE("a store in memory fails as it is told, and what it holds outlives that", "[server][storage]") {
  MemorySnapshotStore store;
  const auto kept = WriteOne(&store, IdOf(1, 10));
  store.FailWrites(Unreachable("the disk is full"));
  const DiskResult failed = Execute(WriteSnapshot{MakeImage(IdOf(1, 11), kShard), nullptr}, &store);
  CHECK(std::get<SnapshotWritten>(failed).status.code() == Code::kUnreachable);
  CHECK(store.List().size() == 1);
  CHECK(LoadAndCompare(&store, IdOf(1, 10), kShard, kept.digest).ok());
  store.FailRemember(Unreachable("the disk is gone"));
  CHECK(std::get<IdentityPersisted>(Execute(PersistIdentity{}, &store)).status.code() == Code::kUnreachable);
  store.FailWrites({});
  const auto newest = WriteOne(&store, IdOf(1, 11));
  REQUIRE(store.DamageNewest());
  CHECK(LoadAndCompare(&store, IdOf(1, 11), kShard, newest.digest).code() == Code::kCorrupt);
  CHECK(LoadAndCompare(&store, IdOf(1, 10), kShard, kept.digest).ok());
}

}  // namespace
}  // namespace capstan::server
