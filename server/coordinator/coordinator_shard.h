// ShardState, PendingSnapshot: a coordinator's knowledge of each shard, and of the snapshot being taken.
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
  std::optional<Hello> hello;  // from the newest incarnation
  PeerId peer;
  Instant last_heard{};
  bool fresh = false;                // the hello carries our own term
  bool reset_done = false;           // for generation_, by the incarnation in `hello`
  std::optional<Prepared> prepared;  // for step_ or the next one
  std::optional<Step> committed;     // the newest step that this shard has published
  // Without global steps: all reports that the shard holds for steps and slots up to this pair have arrived here.
  std::pair<Step, SlotIndex> reports_to;
  static constexpr std::pair kAllReports{Step{UINT64_MAX}, SlotIndex{0}};
  std::vector<SnapshotPart> parts;  // named by a manifest; this incarnation has or had them
  std::string ahead;                // events that the shard has seen and our log lacks; empty: none
  PeerId rival;                     // another process that claims this index
  Instant rival_since{};
};

struct Coordinator::PendingSnapshot {
  SnapshotId id;
  std::vector<std::optional<SnapshotDone>> parts;  // by shard
  Instant since{};
  Instant next_line{};  // when the next log line about it is due
};

}  // namespace capstan::server
