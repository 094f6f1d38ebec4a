#include "cli/snapshot/delete_snapshots.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/run/run_directory.h"
#include "cli/snapshot/run_snapshots.h"
#include "server/storage/file_coordinator_log.h"
#include "server/storage/manifests.h"
#include "server/storage/rocks_snapshot_store.h"
#include "server/storage/shard_identity.h"

namespace capstan::cli {

namespace {

using server::FileCoordinatorLog;
using server::ManifestRecord;
using server::SnapshotStore;

Result<std::vector<SnapshotId>> Choose(const RunSnapshots& run, const DeleteOptions& options) {
  std::vector<SnapshotId> chosen;
  if (options.step) {
    CAPSTAN_ASSIGN_OR_RETURN(const ManifestRecord* const manifest, FindSnapshot(run, options.step));
    chosen.push_back(manifest->id);
  } else {
    for (std::size_t i = 0; i + *options.all_but < run.manifests.size(); ++i) chosen.push_back(run.manifests[i].id);
  }
  const bool newest = !chosen.empty() && chosen.back() == run.manifests.back().id;
  if (chosen.size() == run.manifests.size() && !chosen.empty()) {
    return Refused("no snapshot would be left in " + run.run_dir +
                   ", and nothing to go on from; remove the run directory if that is what you want");
  }
  if (newest && options.newest == DeleteNewest::kRefuse) {
    return Refused("the snapshot of step " + std::to_string(chosen.back().version.value) +
                   " is the newest: the job would go back to an older one; --force deletes it all the same");
  }
  return chosen;
}

// Opens and locks the directories of all shards in this run directory.
Result<std::vector<std::unique_ptr<SnapshotStore>>> HoldShards(const std::string& folder) {
  std::vector<std::unique_ptr<SnapshotStore>> stores;
  for (const ShardIndex shard : server::FindOrphans(folder, 0)) {
    CAPSTAN_ASSIGN_OR_RETURN(auto store, server::RocksSnapshotStore::Open(folder, shard, 0));
    stores.push_back(std::move(store));
  }
  return stores;
}

void RemoveParts(SnapshotStore* store, Deleted* deleted) {
  for (const SnapshotPart& part : store->List()) {
    const bool gone =
        std::find(deleted->snapshots.begin(), deleted->snapshots.end(), part.id) != deleted->snapshots.end();
    if (!gone) continue;
    const Status status = store->Remove(part.id, part.part);
    if (!status.ok()) deleted->left_behind.push_back(status.message());
  }
}

SnapshotId NewestLeft(const RunSnapshots& run, const std::vector<SnapshotId>& gone) {
  for (std::size_t i = run.manifests.size(); i-- > 0;) {
    const SnapshotId id = run.manifests[i].id;
    if (std::find(gone.begin(), gone.end(), id) == gone.end()) return id;
  }
  return {};
}

// Makes a shard's directory forget snapshots newer than `newest`. A shard that remembers a newer snapshot than the
// coordinator's log has would take that log for an old copy.
Status ForgetNewer(SnapshotStore* store, SnapshotId newest) {
  server::ShardIdentity identity = store->identity();
  if (identity.newest_retained <= newest) return {};
  identity.newest_retained = newest;
  return store->PersistIdentity(identity);
}

}  // namespace

Result<Deleted> DeleteSnapshots(const std::string& run_dir, const DeleteOptions& options) {
  CAPSTAN_RETURN_IF_ERROR(ReadRunSnapshots(run_dir).status());  // before a lock file is made in a foreign folder
  CAPSTAN_ASSIGN_OR_RETURN(const RunDirectory held, RunDirectory::Hold(run_dir));
  CAPSTAN_ASSIGN_OR_RETURN(auto log, FileCoordinatorLog::Open(LogPath(run_dir), 0));
  CAPSTAN_ASSIGN_OR_RETURN(const auto stores, HoldShards(SnapshotFolder(run_dir)));
  CAPSTAN_ASSIGN_OR_RETURN(const RunSnapshots run, ReadRunSnapshots(run_dir));
  Deleted deleted;
  CAPSTAN_ASSIGN_OR_RETURN(deleted.snapshots, Choose(run, options));
  if (deleted.snapshots.empty()) return deleted;
  CAPSTAN_RETURN_IF_ERROR(log->Replace(server::WithoutSnapshots(run.records, run.keep, deleted.snapshots)));
  const SnapshotId newest = NewestLeft(run, deleted.snapshots);
  for (const auto& store : stores) {
    RemoveParts(store.get(), &deleted);
    CAPSTAN_RETURN_IF_ERROR(ForgetNewer(store.get(), newest));
  }
  return deleted;
}

}  // namespace capstan::cli
