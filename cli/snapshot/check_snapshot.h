// CheckSnapshot: reads all of a snapshot and compares it with its manifest and headers.
//
// Kind:   functions; they only read.
// Why:    a job uses a snapshot only if every byte is as written; this check finds damage before the
//         snapshot is needed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/snapshot/run_snapshots.h"

namespace capstan::cli {

struct SnapshotCheck {
  std::uint64_t blocks = 0, bytes = 0;  // counts of what was read and found good
  std::vector<std::string> problems;    // messages; empty: the snapshot is good
};

SnapshotCheck CheckSnapshot(const RunSnapshots& run, const server::ManifestRecord& manifest);

// Reads the header of a part. Fails unless it belongs to this manifest and to this run's job and model.
Result<server::SnapshotHeader> ReadPartHeader(const RunSnapshots& run, const server::ManifestRecord& manifest,
                                              ShardIndex part);

// Returns a message for each part whose header is missing, damaged or not of this run. Does not read blocks.
std::vector<std::string> BadParts(const RunSnapshots& run, const server::ManifestRecord& manifest);

}  // namespace capstan::cli
