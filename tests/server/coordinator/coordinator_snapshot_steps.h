// Used by tests of snapshots and recovery with a CoordinatorBench: steps, retained parts, answered Resets.
//
// Kind: functions of a bench.
#pragma once

#include "common/config/job/job_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_reports.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_bench.h"

namespace capstan::server {

inline SnapshotId Id(std::uint64_t generation, std::uint64_t version) {
  return {Generation{generation}, Version{version}};
}
inline SnapshotPart Part(SnapshotId id, ShardIndex part) { return CoordinatorBench::PartOf(id, part); }
inline bool Mentions(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

inline CoordinatorBench Bench(std::uint32_t shard_count = 2, Mode mode = Mode::kSync,
                              SnapshotSection when = {2, 0, 2}) {
  CoordinatorBench bench(shard_count, 2, mode);
  bench.config.job.steps = 40;
  bench.config.snapshot = when;
  return bench;
}

// Does a step and answers its Commits. Returns the parameters of the next step.
inline StepParameters DoStep(CoordinatorBench* bench) {
  const std::uint64_t step = bench->coordinator->step().value;
  for (ShardIndex i = 0; i < bench->shards.size(); ++i) bench->Prepares(i, step);
  StepParameters next;
  for (ShardIndex i = 0; i < bench->shards.size(); ++i) {
    const std::vector<Commit> commits = bench->TakeFromShard<Commit>(i);
    REQUIRE(!commits.empty());
    next = commits.back().next;
    bench->Commits(i, commits.back());
  }
  return next;
}

// Does steps up to this version. Every shard completes every snapshot that is due before it.
inline void RunTo(CoordinatorBench* bench, std::uint64_t version) {
  while (bench->coordinator->step().value < version) {
    if (!DoStep(bench).snapshot) continue;
    for (ShardIndex i = 0; i < bench->shards.size(); ++i) bench->Keeps(i, bench->coordinator->step().value);
  }
  REQUIRE(bench->coordinator->newest_snapshot() == SnapshotId{bench->coordinator->generation(), Version{version}});
}

inline std::vector<std::uint64_t> KeptVersions(const Coordinator& coordinator) {
  std::vector<std::uint64_t> versions;
  for (const ManifestRecord& manifest : coordinator.manifests()) versions.push_back(manifest.id.version.value);
  return versions;
}

// Returns the newest Reset sent to each shard; there must be one.
inline std::vector<Reset> Resets(CoordinatorBench* bench) {
  bench->Tick(std::chrono::milliseconds(500));
  std::vector<Reset> resets;
  for (ShardIndex i = 0; i < bench->shards.size(); ++i) {
    const std::vector<Reset> sent = bench->TakeFromShard<Reset>(i);
    REQUIRE(!sent.empty());
    resets.push_back(sent.back());
  }
  return resets;
}

inline void AnswerResets(CoordinatorBench* bench) {
  for (ShardIndex i = 0; i < bench->shards.size(); ++i) bench->AnswerReset(i);
  REQUIRE(bench->coordinator->state() == Coordinator::State::kRunning);
}

inline void Clocks(CoordinatorBench* bench, std::uint64_t clock) {
  for (ShardIndex i : {0U, 1U}) {
    Progress progress{i, bench->shards[i].hello.incarnation, bench->coordinator->generation(), {clock, clock}, {}};
    SlotReport report;
    report.slot = i;
    report.samples = report.predictions = 1;
    progress.reports.push_back({Step{clock}, report});
    bench->Send(bench->shards[i].peer, progress);
  }
}

}  // namespace capstan::server
