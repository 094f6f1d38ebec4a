// CheckSnapshot: reads all of a snapshot and compares it with what its manifest and headers say.
//
// Kind:   functions; they read.
// Why:    a snapshot is believed only when every byte of it is what was written; so it is before it is needed, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/snapshot/run_snapshots.h"

namespace capstan::cli {

struct SnapshotCheck {
  std::uint64_t blocks = 0, bytes = 0;  // that were read and are good
  std::vector<std::string> problems;    // which part, which block
};

SnapshotCheck CheckSnapshot(const RunSnapshots& run, const server::ManifestRecord& manifest);

// The header of a part, when it belongs to this manifest and this run's job and model.
Result<server::SnapshotHeader> ReadPartHeader(const RunSnapshots& run, const server::ManifestRecord& manifest,
                                              ShardIndex part);

// Parts that are not here, or not whole; their blocks are not looked at.
std::vector<std::string> BadParts(const RunSnapshots& run, const server::ManifestRecord& manifest);

}  // namespace capstan::cli
