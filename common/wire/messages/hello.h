// Hello: a shard tells the coordinator who it is and where it stands.
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
  Term term;  // echo of the newest term seen
  Generation generation;
  bool serving = false;  // a Reset of `generation` has been carried out
  Version version;       // published
  std::optional<Commit> last_commit;
  std::optional<Prepared> prepared;
  std::uint64_t config_hash = 0;
  std::string endpoint;             // where workers reach this shard
  std::vector<SnapshotPart> parts;  // that this process can serve
  SnapshotId newest_kept;           // the newest snapshot this directory was ever told of
  std::string metrics;              // host:port of its process's metrics; empty: it serves none
};

}  // namespace capstan
