// RunSnapshots: the snapshots of a run directory, as they were when it was read.
//
// Kind:   value, owned by one thread. Reading it disturbs no job that runs there: no lock is taken, nothing is written.
// Fails:  kInvalid: no run directory; kCorrupt, kUnsupported (of a newer build): its log.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/job_config.h"
#include "common/data/catalog.h"
#include "server/storage/coordinator_log.h"
#include "server/storage/rocks_snapshot_reader.h"

namespace capstan::cli {

struct RunSnapshots {
  std::string run_dir;
  JobId job;
  JobConfig config;                // of the job file in the log
  std::uint32_t keep = 0;          // of the job file in force
  std::optional<Catalog> catalog;  // once a worker has declared it
  std::vector<server::LogRecord> records;
  std::vector<server::ManifestRecord> manifests;  // of the snapshots that exist, oldest first
  std::unique_ptr<server::RocksSnapshotReader> parts;
};

Result<RunSnapshots> ReadRunSnapshots(const std::string& run_dir);

// The one of this step, or the newest. kInvalid, naming those that there are.
Result<const server::ManifestRecord*> FindSnapshot(const RunSnapshots& run, std::optional<std::uint64_t> step);

// Whether it exists now: a job that is running deletes old ones.
bool StillExists(const RunSnapshots& run, SnapshotId id);

std::string LogPath(const std::string& run_dir);
std::string SnapshotFolder(const std::string& run_dir);

}  // namespace capstan::cli
