// Hello: a shard tells the coordinator its identity and its state.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/snapshot_id.h"

namespace capstan {

struct Hello {
  JobId job;  // null for a shard that keeps nothing on disk
  ShardIndex shard = 0;
  Incarnation incarnation;
  Term term;  // the newest term that the shard has seen
  Generation generation;
  bool serving = false;  // whether it has carried out the Reset of `generation`
  Version version;       // the published version
  std::optional<Commit> last_commit;
  std::optional<Prepared> prepared;
  std::uint64_t config_hash = 0;
  std::string endpoint;             // the shard's address for workers
  std::vector<SnapshotPart> parts;  // parts of snapshots that this process can serve
  SnapshotId newest_retained;       // the newest snapshot that a RetainedSnapshots has named to this directory
  std::string metrics;              // host:port or https://host:port of the process's metrics; empty: none
  std::uint64_t sessions = 0;       // the newest LiveSessions of `term` that it has taken: its sequence; 0: none
  std::uint64_t busy_us = 0;        // microseconds that this process has spent on handling messages for the shard
};

}  // namespace capstan
