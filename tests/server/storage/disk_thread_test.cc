#include <chrono>

#include "server/storage/memory_snapshot_store.h"
#include "server/storage/shard_disk_thread.h"
#include "tests/catch.h"
#include "tests/server/storage/storage_tools.h"

namespace capstan::server {
namespace {

constexpr auto kForever = std::chrono::minutes(5);

// A store in which PersistIdentity waits for LetGo, and Write waits until it is cancelled.
class GatedStore : public MemorySnapshotStore {
 public:
  Status PersistIdentity(const ShardIdentity& identity) override {
    Wait();
    return MemorySnapshotStore::PersistIdentity(identity);
  }
  Result<Written> Write(SnapshotImage image, const std::atomic<bool>& cancelled) override {
    (void)entered_.Push(1);
    while (!cancelled.load()) std::this_thread::yield();  // a disk that writes until it is cancelled
    return MemorySnapshotStore::Write(std::move(image), cancelled);
  }
  void WaitUntilEntered() { CAPSTAN_CHECK(entered_.PopUntil(std::chrono::steady_clock::now() + kForever).has_value()); }
  void LetGo(int times) {
    for (int i = 0; i < times; ++i) CAPSTAN_CHECK(gate_.Push(1).ok());
  }

 private:
  void Wait() {
    (void)entered_.Push(1);
    CAPSTAN_CHECK(gate_.PopUntil(std::chrono::steady_clock::now() + kForever).has_value());
  }
  Mailbox<int> entered_{4096}, gate_{4096};
};

ShardIdentity IncarnationOf(std::uint64_t term) {
  ShardIdentity identity;
  identity.term = {term};
  return identity;
}

// Waits for `count` results, and returns them in order.
std::vector<DiskResult> TakeAll(ShardDiskThread* thread, Mailbox<int>* woken, std::size_t count) {
  std::vector<DiskResult> results;
  while (results.size() < count) {
    REQUIRE(woken->PopUntil(std::chrono::steady_clock::now() + kForever).has_value());
    while (std::optional<DiskResult> result = thread->TakeResult()) results.push_back(std::move(*result));
  }
  return results;
}

TEST_CASE("a disk's thread carries work out in order and wakes its owner after each", "[server][storage]") {
  MemorySnapshotStore store;
  Mailbox<int> woken(64);
  ShardDiskThread thread(3, &store, [&] { (void)woken.Push(1); });
  const SnapshotImage like = MakeImage({{1}, {5}}, 3);
  REQUIRE(thread.Submit(PersistIdentity{IncarnationOf(4)}).ok());
  REQUIRE(thread.Submit(WriteSnapshot{MakeImage({{1}, {5}}, 3), nullptr}).ok());
  REQUIRE(thread.Submit(RemoveParts{{{{{1}, {4}}, 3, 0}}}).ok());
  const std::vector<DiskResult> results = TakeAll(&thread, &woken, 3);
  CHECK(std::get<IdentityPersisted>(results[0]).identity == IncarnationOf(4));
  const auto& written = std::get<SnapshotWritten>(results[1]);
  CHECK(written.status.ok());
  CHECK(written.id == like.header.id);
  CHECK(written.parameters == like.header.parameters);
  CHECK(std::get<PartsRemoved>(results[2]).status.ok());
  CHECK(thread.waiting() == 0);
  REQUIRE(thread.Submit(LoadWork(like, written.digest)).ok());
  CHECK(std::get<SnapshotLoaded>(TakeAll(&thread, &woken, 1)[0]).status.ok());
}

TEST_CASE("a disk's thread takes no more than its limit, and more when results were taken", "[server][storage]") {
  GatedStore store;
  Mailbox<int> woken(4096);
  ShardDiskThread thread(0, &store, [&] { (void)woken.Push(1); });
  for (std::size_t i = 0; i < ShardDiskThread::kWaitingMax; ++i)
    REQUIRE(thread.Submit(PersistIdentity{IncarnationOf(i)}).ok());
  DiskWork more = PersistIdentity{IncarnationOf(7777)};
  CHECK(thread.Submit(std::move(more)).code() == Code::kBusy);
  CHECK(std::get<PersistIdentity>(more).identity == IncarnationOf(7777));
  store.LetGo(ShardDiskThread::kWaitingMax);
  TakeAll(&thread, &woken, ShardDiskThread::kWaitingMax);
  CHECK(store.identity() == IncarnationOf(ShardDiskThread::kWaitingMax - 1));
  store.LetGo(1);
  REQUIRE(thread.Submit(std::move(more)).ok());
  TakeAll(&thread, &woken, 1);
  CHECK(store.identity() == IncarnationOf(7777));
}

TEST_CASE("a disk's thread that ends gives up the snapshot being written and remembers lives", "[server][storage]") {
  GatedStore store;
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  {
    ShardDiskThread thread(0, &store, [] {});
    REQUIRE(thread.Submit(WriteSnapshot{MakeImage({{1}, {5}}, 0), cancelled}).ok());
    REQUIRE(thread.Submit(WriteSnapshot{MakeImage({{1}, {6}}, 0), nullptr}).ok());
    REQUIRE(thread.Submit(PersistIdentity{IncarnationOf(9)}).ok());
    store.WaitUntilEntered();
    store.LetGo(1);
  }
  CHECK(cancelled->load());
  CHECK(store.List().empty());
  CHECK(store.identity() == IncarnationOf(9));
}

}  // namespace
}  // namespace capstan::server
