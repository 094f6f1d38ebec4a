// CheckDisk: whether the disk of a run directory has room and how fast it is. MeasureDisk: its facts.
//
// Kind:   CheckDisk is a pure function; MeasureDisk writes to a file without a name in the folder.
// Limits: MeasureDisk writes at most kProbeBytesMax, at most a quarter of the free space, and begins nothing after
//         kProbeTime.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/doctor/finding.h"

namespace capstan::cli {

inline constexpr std::uint64_t kProbeBytesMax = std::uint64_t{256} << 20;
inline constexpr std::chrono::milliseconds kProbeTime{700};

struct DiskFacts {
  std::string folder;  // where the run directory is, or will be made
  std::string kind;    // of the file system, such as "tmpfs"; empty: another one than those known
  std::uint64_t free_bytes = 0;
  std::optional<std::uint64_t> free_files;  // nullopt: the file system has no fixed number
  std::string problem;                      // why nothing can be written there; empty: nothing is wrong
  std::optional<double> sync_seconds;       // median time of an fsync after a small write
  std::optional<double> write_bytes_per_second;
};

// `run_dir`: the run directory, which need not exist: the first folder above it that does is measured.
DiskFacts MeasureDisk(const std::string& run_dir);
// `snapshot_bytes`: of one snapshot; 0: unknown. `snapshots`: how many the job keeps, with the one being written.
Finding CheckDisk(const DiskFacts& facts, std::uint64_t snapshot_bytes = 0, std::uint64_t snapshots = 0);

}  // namespace capstan::cli
