// DeleteSnapshots: removes snapshots from a run directory.
//
// Kind:   function.
// Fails:  kRefused: a job uses the run, the deletion would leave no snapshot, or it needs --force; kInvalid: no such
//         snapshot; kUnreachable: the disk.
// Why:    the snapshots are removed from the coordinator's log first, in one step. After a crash in between, parts
//         remain that the log does not name; the job deletes them when it continues.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/wire/messages/snapshot_id.h"

namespace capstan::cli {

enum class DeleteNewest { kRefuse, kAllow };

// Selects the snapshots to delete. Exactly one of `step` and `all_but` is set.
struct DeleteOptions {
  std::optional<std::uint64_t> step;
  std::optional<std::uint64_t> all_but;  // keep so many of the newest
  DeleteNewest newest = DeleteNewest::kRefuse;
};

struct Deleted {
  std::vector<SnapshotId> snapshots;
  std::vector<std::string> left_behind;  // parts that could not be removed, with reasons
};

Result<Deleted> DeleteSnapshots(const std::string& run_dir, const DeleteOptions& options);

}  // namespace capstan::cli
