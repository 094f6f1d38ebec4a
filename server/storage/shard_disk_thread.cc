#include "server/storage/shard_disk_thread.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace capstan::server {

namespace {

constexpr auto kLookAgainEvery = std::chrono::hours(1);

// The store, until it is told to stop: then it reads no more. Remembering goes on.
class StoppableStore : public SnapshotStore {
 public:
  StoppableStore(SnapshotStore* store, const std::atomic<bool>* stopping) : store_(store), stopping_(stopping) {}

  const ShardLife& life() const override { return store_->life(); }
  Status Remember(const ShardLife& life) override { return store_->Remember(life); }
  std::vector<SnapshotPart> List() const override { return store_->List(); }
  Result<Written> Write(SnapshotImage image, const std::atomic<bool>& cancelled) override {
    return store_->Write(std::move(image), cancelled);
  }
  Result<SnapshotHeader> ReadHeader(SnapshotId id, ShardIndex part) const override {
    if (stopping_->load()) return Stopped();
    return store_->ReadHeader(id, part);
  }
  Status ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                   std::span<std::byte> out) const override {
    if (stopping_->load()) return Stopped();
    return store_->ReadArray(id, part, block, array, out);
  }
  Status Remove(SnapshotId id, ShardIndex part) override {
    if (stopping_->load()) return Stopped();
    return store_->Remove(id, part);
  }

 private:
  static Status Stopped() { return Refused("the shard ends"); }

  SnapshotStore* store_;
  const std::atomic<bool>* stopping_;
};

}  // namespace

ShardDiskThread::ShardDiskThread(ShardIndex shard, SnapshotStore* store, std::function<void()> wake)
    : store_(store), wake_(std::move(wake)) {
  thread_ = std::thread([this, name = "disk-" + std::to_string(shard)] {
    pthread_setname_np(pthread_self(), name.c_str());
    Run();
  });
}

ShardDiskThread::~ShardDiskThread() {
  stopping_.store(true);
  for (const std::weak_ptr<std::atomic<bool>>& cancel : cancels_) {
    if (const std::shared_ptr<std::atomic<bool>> cancelled = cancel.lock()) cancelled->store(true);
  }
  work_.Close();
  thread_.join();
}

Status ShardDiskThread::Submit(DiskWork&& work) {
  if (waiting_ >= kWaitingMax) return {Code::kBusy, "the disk has more work waiting than it may"};
  if (auto* write = std::get_if<WriteSnapshot>(&work)) {
    if (write->cancelled == nullptr) write->cancelled = std::make_shared<std::atomic<bool>>(false);
    std::erase_if(cancels_, [](const auto& cancel) { return cancel.expired(); });
    cancels_.push_back(write->cancelled);
  }
  CAPSTAN_RETURN_IF_ERROR(work_.Push(std::move(work)));
  ++waiting_;
  return {};
}

std::optional<DiskResult> ShardDiskThread::TakeResult() {
  std::optional<DiskResult> result = results_.TryPop();
  if (result) --waiting_;
  return result;
}

void ShardDiskThread::Run() {
  StoppableStore store(store_, &stopping_);
  while (true) {
    std::optional<DiskWork> work = work_.PopUntil(std::chrono::steady_clock::now() + kLookAgainEvery);
    if (!work && !work_.closed()) continue;
    if (!work) work = work_.TryPop();
    if (!work) return;
    if (stopping_.load() && !std::holds_alternative<RememberLife>(*work)) continue;
    const Status pushed = results_.Push(CarryOut(*std::move(work), &store));
    CAPSTAN_CHECK(pushed.ok());  // Submit has left room for it
    if (!stopping_.load()) wake_();
  }
}

}  // namespace capstan::server
