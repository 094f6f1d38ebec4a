// ShardState, PendingSnapshot: what a coordinator knows of each shard, and of the snapshot that they take.
//
// Kind:   values; parts of the Coordinator, for its sources only.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/messages/hello.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "server/coordinator/coordinator.h"

namespace capstan::server {

struct Coordinator::ShardState {
  std::optional<Hello> hello;  // of the newest incarnation
  PeerId peer;
  Instant last_heard{};
  bool fresh = false;                // the hello echoes our own term
  bool reset_done = false;           // of generation_, by hello's incarnation
  std::optional<Prepared> prepared;  // of step_ or the next
  std::optional<Step> committed;     // newest step it has published
  // Without global steps: the reports that it has are here, those of steps and slots up to this one.
  std::pair<Step, SlotIndex> reports_to;
  static constexpr std::pair kAllReports{Step{UINT64_MAX}, SlotIndex{0}};
  std::vector<SnapshotPart> parts;  // those of manifests that this life has: what is kept does not go away
  std::string ahead;                // what it was told that is not in our log
  PeerId rival;                     // another process that claims this index
  Instant rival_since{};
};

struct Coordinator::PendingSnapshot {
  SnapshotId id;
  std::vector<std::optional<SnapshotDone>> parts;  // by shard
  Instant since{};
  Instant next_line{};  // for people, while it lasts
};

}  // namespace capstan::server
