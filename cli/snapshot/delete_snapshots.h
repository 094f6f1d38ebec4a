// DeleteSnapshots: takes snapshots out of a run directory.
//
// Kind:   function.
// Fails:  kRefused: a job runs there, or what is asked would leave no way to go on; kInvalid: there is no such
//         snapshot; kUnreachable: the disk.
// Why:    the log forgets them first, in one step: a crash on the way leaves parts that nobody names, which the job
//         clears away when it goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/wire/messages/snapshot_id.h"

namespace capstan::cli {

enum class DeleteNewest { kRefuse, kAllow };

// Exactly one of the first two.
struct DeleteOptions {
  std::optional<std::uint64_t> step;
  std::optional<std::uint64_t> all_but;  // of the newest
  DeleteNewest newest = DeleteNewest::kRefuse;
};

struct Deleted {
  std::vector<SnapshotId> snapshots;
  std::vector<std::string> left_behind;  // parts that could not be removed, and why
};

Result<Deleted> DeleteSnapshots(const std::string& run_dir, const DeleteOptions& options);

}  // namespace capstan::cli
