// RunSnapshots: the snapshots of a run directory at the time of reading.
//
// Kind:   value, owned by one thread. Reading does not disturb a running job: it takes no lock and writes nothing.
// Fails:  kInvalid: no run directory; kCorrupt: the log is damaged; kUnsupported: a newer build wrote the log.
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
  JobConfig config;                // from the job file in the log
  std::uint32_t keep = 0;          // from the current job file
  std::optional<Catalog> catalog;  // empty until a worker has declared it
  std::vector<server::LogRecord> records;
  std::vector<server::ManifestRecord> manifests;  // existing snapshots, oldest first
  std::unique_ptr<server::RocksSnapshotReader> parts;
};

Result<RunSnapshots> ReadRunSnapshots(const std::string& run_dir);

// Finds the snapshot of this step or, without a step, the newest. Returns kInvalid and names the existing snapshots if
// there is none of this step, and kRefused if the run has no snapshots.
Result<const server::ManifestRecord*> FindSnapshot(const RunSnapshots& run, std::optional<std::uint64_t> step);

// Whether the snapshot still exists. A running job deletes old snapshots.
bool StillExists(const RunSnapshots& run, SnapshotId id);

std::string LogPath(const std::string& run_dir);
std::string SnapshotFolder(const std::string& run_dir);

}  // namespace capstan::cli
