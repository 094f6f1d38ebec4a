// ManifestsOf: the snapshots that exist according to the coordinator's log.
//
// Kind:   pure functions.
// Why:    a coordinator that resumes a job and the commands that list, export and delete snapshots agree
//         on which snapshots exist.
#pragma once

#include <cstdint>
#include <vector>

#include "server/storage/coordinator_log.h"

namespace capstan::server {

// Keeps only the newest `keep` manifests, at least two.
void DropOldManifests(std::uint32_t keep, std::vector<ManifestRecord>* manifests);

// Returns the manifests of the snapshots that exist, oldest first.
std::vector<ManifestRecord> ManifestsOf(const std::vector<LogRecord>& records, std::uint32_t keep);

// Returns the records that still matter to a coordinator, without superseded ones. Their number does not depend on how
// long the job has run.
std::vector<LogRecord> RecordsInForce(const std::vector<LogRecord>& records, std::uint32_t keep);

// Returns RecordsInForce without the records of the snapshots in `gone`, whose files no longer exist. The result lists
// no shard as running, so the next coordinator begins a generation. If the newest snapshot is in `gone`, the result no
// longer has the job as done.
std::vector<LogRecord> WithoutSnapshots(const std::vector<LogRecord>& records, std::uint32_t keep,
                                        const std::vector<SnapshotId>& gone);

}  // namespace capstan::server
