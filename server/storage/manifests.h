// ManifestsOf: the snapshots that exist, by a coordinator's log.
//
// Kind:   pure functions.
// Why:    the coordinator that goes on with a job and the commands that list, export and delete agree on what exists.
#pragma once

#include <cstdint>
#include <vector>

#include "server/storage/coordinator_log.h"

namespace capstan::server {

// The newest `keep` stay, two at least.
void DropOldManifests(std::uint32_t keep, std::vector<ManifestRecord>* manifests);

// Oldest first.
std::vector<ManifestRecord> ManifestsOf(const std::vector<LogRecord>& records, std::uint32_t keep);

// A log that says the same to a coordinator: what was said before and is not in force any more is left out. Its size does
// not depend on how long the job has run.
std::vector<LogRecord> RecordsInForce(const std::vector<LogRecord>& records, std::uint32_t keep);

// A log that says the same to a coordinator but for `gone`, which do not exist any more: only what is in force is left.
// No shard lives on: the next coordinator begins a generation. When the newest is among them, the job is not done.
std::vector<LogRecord> WithoutSnapshots(const std::vector<LogRecord>& records, std::uint32_t keep,
                                        const std::vector<SnapshotId>& gone);

}  // namespace capstan::server
