#include "server/storage/shard_disk_thread.h"

#include <string>
#include <utility>

#include "server/storage/snapshot_store.h"

namespace capstan::server {

namespace {

// Passes calls on to the store. Once `stopping` is set, reading and removing parts fail; identities are still stored.
class StoppableStore : public SnapshotStore {
 public:
  StoppableStore(SnapshotStore* store, const std::atomic<bool>* stopping) : store_(store), stopping_(stopping) {}

  const ShardIdentity& identity() const override { return store_->identity(); }
  Status PersistIdentity(const ShardIdentity& identity) override { return store_->PersistIdentity(identity); }
  std::vector<SnapshotPart> List() const override { return store_->List(); }
  Result<Written> Write(SnapshotImage image, const std::atomic<bool>& cancelled) override {
    return store_->Write(std::move(image), cancelled);
  }
  Result<SharedHeader> ReadHeader(SnapshotId id, ShardIndex part) const override {
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

const char* NameOf(const DiskWork& work) {
  if (std::holds_alternative<WriteSnapshot>(work)) return "snapshot write";
  if (std::holds_alternative<LoadSnapshot>(work)) return "snapshot load";
  if (std::holds_alternative<ReadForPeer>(work)) return "read for peer";
  return std::holds_alternative<RemoveParts>(work) ? "remove snapshots" : "remember life";
}

std::chrono::steady_clock::time_point NowFor(const monitoring::TraceLane* lane) {
  return lane != nullptr ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
}

}  // namespace

ShardDiskThread::ShardDiskThread(ShardIndex shard, SnapshotStore* store, std::function<void()> wake,
                                 monitoring::TraceLane* lane)
    : thread_(
          "disk-" + std::to_string(shard), kWaitingMax,
          [store, lane](DiskWork&& work, const std::atomic<bool>& stopping) -> std::optional<DiskResult> {
            if (stopping.load() && !std::holds_alternative<PersistIdentity>(work)) return std::nullopt;
            StoppableStore stoppable(store, &stopping);
            const auto begin = NowFor(lane);
            const char* const what = NameOf(work);
            DiskResult result = Execute(std::move(work), &stoppable);
            if (lane != nullptr) lane->Add(what, begin, NowFor(lane));
            return result;
          },
          std::move(wake)) {}

ShardDiskThread::~ShardDiskThread() {
  for (const std::weak_ptr<std::atomic<bool>>& cancel : cancels_) {
    if (const std::shared_ptr<std::atomic<bool>> cancelled = cancel.lock()) cancelled->store(true);
  }
}

Status ShardDiskThread::Submit(DiskWork&& work) {
  std::shared_ptr<std::atomic<bool>> cancelled;
  if (auto* write = std::get_if<WriteSnapshot>(&work)) {
    if (write->cancelled == nullptr) write->cancelled = std::make_shared<std::atomic<bool>>(false);
    cancelled = write->cancelled;
  }
  CAPSTAN_RETURN_IF_ERROR(thread_.Submit(std::move(work)));
  std::erase_if(cancels_, [](const auto& cancel) { return cancel.expired(); });
  if (cancelled) cancels_.push_back(std::move(cancelled));
  return {};
}

}  // namespace capstan::server
