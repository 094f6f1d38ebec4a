// Used by tests of snapshots and recovery with a CoordinatorHarness: steps, retained parts, answered Resets.
//
// Kind: functions of a harness.
#pragma once

#include "common/config/job/job_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_reports.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::server {

inline SnapshotId Id(std::uint64_t generation, std::uint64_t version) {
  return {Generation{generation}, Version{version}};
}
inline SnapshotPart Part(SnapshotId id, ShardIndex part) { return CoordinatorHarness::PartOf(id, part); }
inline bool Mentions(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

inline CoordinatorHarness Harness(std::uint32_t shard_count = 2, Mode mode = Mode::kSync,
                                  SnapshotSection when = {2, 0, 2}) {
  CoordinatorHarness harness(shard_count, 2, mode);
  harness.config.job.steps = 40;
  harness.config.snapshot = when;
  return harness;
}

// Does a step and answers its Commits. Returns the parameters of the next step.
inline StepParameters DoStep(CoordinatorHarness* harness) {
  const std::uint64_t step = harness->coordinator->step().value;
  for (ShardIndex i = 0; i < harness->shards.size(); ++i) harness->Prepares(i, step);
  StepParameters next;
  for (ShardIndex i = 0; i < harness->shards.size(); ++i) {
    const std::vector<Commit> commits = harness->TakeFromShard<Commit>(i);
    REQUIRE(!commits.empty());
    next = commits.back().next;
    harness->Commits(i, commits.back());
  }
  return next;
}

// Does steps up to this version, and completes every snapshot that becomes due. This version must be one of them.
inline void RunTo(CoordinatorHarness* harness, std::uint64_t version) {
  while (harness->coordinator->step().value < version) {
    if (!DoStep(harness).snapshot) continue;
    for (ShardIndex i = 0; i < harness->shards.size(); ++i) harness->Keeps(i, harness->coordinator->step().value);
  }
  REQUIRE(harness->coordinator->newest_snapshot() == SnapshotId{harness->coordinator->generation(), Version{version}});
}

inline std::vector<std::uint64_t> KeptVersions(const Coordinator& coordinator) {
  std::vector<std::uint64_t> versions;
  for (const ManifestRecord& manifest : coordinator.manifests()) versions.push_back(manifest.id.version.value);
  return versions;
}

// Returns the newest Reset sent to each shard; there must be one.
inline std::vector<Reset> Resets(CoordinatorHarness* harness) {
  harness->Tick(std::chrono::milliseconds(500));
  std::vector<Reset> resets;
  for (ShardIndex i = 0; i < harness->shards.size(); ++i) {
    const std::vector<Reset> sent = harness->TakeFromShard<Reset>(i);
    REQUIRE(!sent.empty());
    resets.push_back(sent.back());
  }
  return resets;
}

inline void AnswerResets(CoordinatorHarness* harness) {
  for (ShardIndex i = 0; i < harness->shards.size(); ++i) harness->AnswerReset(i);
  REQUIRE(harness->coordinator->state() == Coordinator::State::kRunning);
}

inline void Clocks(CoordinatorHarness* harness, std::uint64_t clock) {
  for (ShardIndex i : {0U, 1U}) {
    Progress progress{
        i, harness->shards[i].hello.incarnation, harness->coordinator->generation(), {{clock}, {clock}}, {}};
    SlotReport report;
    report.slot = i;
    report.samples = report.predictions = 1;
    progress.reports.push_back({SequenceNumber{clock}, report});
    harness->Send(harness->shards[i].peer, progress);
  }
}

}  // namespace capstan::server
