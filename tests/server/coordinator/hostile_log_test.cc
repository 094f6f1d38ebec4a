// A log whose seals are right and whose records no coordinator has written: the job fails in words, or goes on.
#include <algorithm>
#include <variant>

#include "common/base/random.h"
#include "common/config/job/job_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/snapshot_done.h"
#include "server/storage/log_record_codec.h"
#include "server/storage/storage_json.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"
#include "tests/tier.h"

namespace capstan::server {
namespace {

constexpr std::uint64_t kStepsBefore = 2;

// Returns the log of a job that has taken snapshots.
std::vector<LogRecord> HonestLog() {
  CoordinatorHarness harness;
  harness.config.job.steps = 20;
  harness.Run();
  for (std::uint64_t step = 0; step < kStepsBefore; ++step) {
    harness.DoStep(step);
    harness.coordinator->RequestStop(harness.now);  // takes a snapshot
    harness.Tick();
    for (ShardIndex i = 0; i < harness.shards.size(); ++i) harness.Keeps(i, step + 1);
    harness.Live();
    harness.ShardsEchoTerm();
    for (std::uint32_t i = 0; i < 2; ++i) harness.Joins("w" + std::to_string(i));
    for (ShardIndex i = 0; i < harness.shards.size(); ++i) harness.AnswerReset(i);
  }
  return harness.log.records();
}

std::uint64_t Extreme(RandomStream& random) {
  constexpr std::uint64_t kExtremes[] = {0, 1, 2, 3, 1000, std::uint64_t{1} << 32, kCountMax - 1, kCountMax};
  return kExtremes[random.Below(std::size(kExtremes))];
}

void Change(JobRecord* record, RandomStream& random) {
  if (random.Below(2) == 0) record->job = JobId{};
  record->job.low += random.Below(2);
  if (random.Below(4) == 0) record->job_file = "";
}
void Change(CatalogRecord* record, RandomStream& random) {
  if (record->tensors.empty()) return;  // an earlier change took them
  TensorSpec& tensor = record->tensors[random.Below(record->tensors.size())];
  switch (random.Below(5)) {
    case 0: record->tensors.clear(); break;
    case 1: tensor.shape = {static_cast<std::int64_t>(random.Next64())}; break;
    case 2: tensor.name = random.Below(2) == 0 ? "" : "a"; break;
    case 3: tensor.group = static_cast<std::uint32_t>(random.Next()); break;
    default: record->tensors.push_back(tensor); break;
  }
}
void Change(TermRecord* record, RandomStream& random) { record->term.value = Extreme(random); }
void Change(RecoverRecord* record, RandomStream& random) {
  switch (random.Below(4)) {
    case 0: record->generation.value = Extreme(random); break;
    case 1: record->snapshot = {Generation{Extreme(random)}, Version{Extreme(random)}}; break;
    case 2: record->timeline.value = Extreme(random); break;
    default: record->parameters.updates = Extreme(random); break;
  }
}
void Change(RunningRecord* record, RandomStream& random) {
  switch (random.Below(3)) {
    case 0: record->generation.value = Extreme(random); break;
    case 1: record->incarnations.resize(random.Below(5)); break;
    default: record->incarnations.assign(2, Incarnation{Extreme(random)}); break;
  }
}
void Change(ManifestRecord* record, RandomStream& random) {
  switch (random.Below(4)) {
    case 0: record->id = {Generation{Extreme(random)}, Version{Extreme(random)}}; break;
    case 1: record->digests.resize(random.Below(5)); break;
    case 2: record->parameters.stop = true; break;
    default: record->parameters.updates = Extreme(random); break;
  }
}
void Change(DoneRecord*, RandomStream&) {}

void Change(std::vector<LogRecord>* records, RandomStream& random) {
  if (records->empty()) return;  // an earlier change took the last one
  const std::size_t at = random.Below(records->size());
  switch (random.Below(6)) {
    case 0: records->erase(records->begin() + static_cast<std::ptrdiff_t>(at)); return;
    case 1: records->push_back((*records)[at]); return;
    case 2: std::swap((*records)[at], (*records)[random.Below(records->size())]); return;
    case 3: records->resize(std::max<std::size_t>(at, 1)); return;
    default: std::visit([&](auto& record) { Change(&record, random); }, (*records)[at]);
  }
}

// Plays shards and workers for whatever coordinator the log makes.
void Play(CoordinatorHarness* harness) {
  harness->Live();
  if (harness->coordinator->state() == Coordinator::State::kFailed) {
    REQUIRE(!harness->coordinator->failure().message().empty());
    return;
  }
  for (int round = 0; round < 3; ++round) {
    harness->ShardsEchoTerm();
    std::vector<Join> joins;
    for (std::uint32_t i = 0; i < 2; ++i) joins.push_back(harness->Joins("w" + std::to_string(i)));
    harness->Pass(std::chrono::seconds(2), joins);
    for (ShardIndex i = 0; i < harness->shards.size(); ++i) harness->AnswerReset(i);
    harness->DoStep(harness->coordinator->step().value);
    harness->Keeps(0, harness->coordinator->step().value);
    harness->RestartShard(0, {});
    harness->Pass(std::chrono::seconds(2), joins);
    harness->Forget();
  }
}

TEST_CASE("no log makes a coordinator abort", "[server][hostile]") {
  const std::vector<LogRecord> honest = HonestLog();
  const auto manifests = [](const LogRecord& record) { return std::holds_alternative<ManifestRecord>(record); };
  REQUIRE(std::count_if(honest.begin(), honest.end(), manifests) == kStepsBefore);
  const std::uint64_t first = testing::TestSeed();
  const auto seeds = static_cast<std::uint64_t>(testing::TriesOfTier(600));
  for (std::uint64_t seed = first; seed != first + seeds; ++seed) {
    INFO("seed " << seed);
    RandomStream random(seed, 7);
    std::vector<LogRecord> records = honest;
    for (std::uint64_t changes = 1 + random.Below(3); changes > 0; --changes) Change(&records, random);
    CoordinatorHarness harness;
    harness.config.job.steps = 20;
    harness.accept_rollback = random.Below(4) == 0;
    for (const LogRecord& record : records) {
      const Result<std::string> json = EncodeLogRecord(record);  // a file's records are decoded, too
      if (json.ok()) REQUIRE(harness.log.Append(*DecodeLogRecord(*json)).ok());
    }
    Play(&harness);
  }
}

TEST_CASE("a log with tensors that no job has is refused with words", "[server][hostile]") {
  CoordinatorHarness harness;
  REQUIRE(harness.log.Append(CatalogRecord{{{"a", {0}, {}}}, "class", 3, 4}).ok());
  harness.Live();
  REQUIRE(harness.coordinator->state() == Coordinator::State::kFailed);
  CHECK(IsNamed(harness.coordinator->failure().message(), "the coordinator's log names tensors that no job has"));
}

TEST_CASE("a log that begins from a snapshot of which it has no record ends the job with words", "[server][hostile]") {
  CoordinatorHarness harness;
  harness.Run();
  RecoverRecord recover = harness.Logged<RecoverRecord>().back();
  recover.generation = recover.generation.Next();
  recover.timeline = TimelineFrom(recover.generation);
  recover.snapshot = {Generation{1}, Version{7}};
  REQUIRE(harness.log.Append(recover).ok());
  harness.Live();
  harness.ShardsEchoTerm();
  harness.Tick(std::chrono::seconds(1));
  REQUIRE(harness.coordinator->state() == Coordinator::State::kFailed);
  CHECK(IsNamed(harness.coordinator->failure().message(), "the coordinator's log has no record of it"));
}

}  // namespace
}  // namespace capstan::server
