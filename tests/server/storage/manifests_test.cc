#include "server/storage/manifests.h"

#include <algorithm>

#include "tests/catch.h"

namespace capstan::server {
namespace {

constexpr std::uint32_t kKeep = 3;

SnapshotId Id(std::uint64_t generation, std::uint64_t version) { return {{generation}, {version}}; }
ManifestRecord Manifest(SnapshotId id) { return {id, {}, {id.version.value, 7}, 100}; }
RecoverRecord Recover(std::uint64_t generation, SnapshotId from) { return {{generation}, from, {}, {generation}}; }

std::vector<SnapshotId> Existing(const std::vector<LogRecord>& records, std::uint32_t keep = kKeep) {
  std::vector<SnapshotId> ids;
  for (const ManifestRecord& manifest : ManifestsOf(records, keep)) ids.push_back(manifest.id);
  return ids;
}

std::vector<LogRecord> BeginningOfALog() {
  return {JobRecord{{1, 2}, "the job"}, CatalogRecord{}, TermRecord{{1}}, Recover(1, {}),
          RunningRecord{{1}, {{5}, {6}}}};
}

TEST_CASE("the newest manifests exist, as many as are kept and two at least", "[server]") {
  std::vector<LogRecord> log = BeginningOfALog();
  CHECK(Existing(log).empty());
  for (std::uint64_t version = 1; version <= 5; ++version) log.push_back(Manifest(Id(1, version)));
  CHECK(Existing(log) == std::vector{Id(1, 3), Id(1, 4), Id(1, 5)});
  CHECK(Existing(log, 0) == std::vector{Id(1, 4), Id(1, 5)});
}

TEST_CASE("what is newer than a snapshot gone back to does not exist", "[server]") {
  std::vector<LogRecord> log = BeginningOfALog();
  for (std::uint64_t version = 1; version <= 3; ++version) log.push_back(Manifest(Id(1, version)));
  log.push_back(Recover(2, Id(1, 2)));
  CHECK(Existing(log) == std::vector{Id(1, 1), Id(1, 2)});
  log.push_back(Manifest(Id(2, 3)));
  CHECK(Existing(log) == std::vector{Id(1, 1), Id(1, 2), Id(2, 3)});
  log.push_back(Recover(3, {}));
  CHECK(Existing(log).empty());
}

TEST_CASE("a log without some snapshots has all others and nothing that had gone before", "[server]") {
  std::vector<LogRecord> log = BeginningOfALog();
  for (std::uint64_t version = 1; version <= 4; ++version) log.push_back(Manifest(Id(1, version)));
  log.push_back(Recover(2, Id(1, 4)));
  log.push_back(Recover(3, Id(1, 3)));
  log.push_back(RunningRecord{{3}, {{7}, {8}}});
  log.push_back(Manifest(Id(3, 9)));
  REQUIRE(Existing(log) == std::vector{Id(1, 2), Id(1, 3), Id(3, 9)});
  for (const SnapshotId gone : {Id(1, 2), Id(1, 3), Id(3, 9)}) {
    std::vector<SnapshotId> left = Existing(log);
    std::erase(left, gone);
    CHECK(Existing(WithoutSnapshots(log, kKeep, {gone})) == left);
    CHECK(Existing(WithoutSnapshots(WithoutSnapshots(log, kKeep, {gone}), kKeep, {left[0]})) == std::vector{left[1]});
  }
}

TEST_CASE("a log without some snapshots has the newest of everything else, and no shard lives on", "[server]") {
  std::vector<LogRecord> log = BeginningOfALog();
  log.insert(log.end(), {Manifest(Id(1, 4)), TermRecord{{2}}, Recover(2, Id(1, 4)), Manifest(Id(2, 6)),
                         DoneRecord{}});  // the coordinator ended between RECOVER and RUNNING
  const std::vector<LogRecord> rest = WithoutSnapshots(log, kKeep, {Id(1, 4)});
  REQUIRE(rest.size() == 7);
  CHECK(std::get<JobRecord>(rest[0]).job == JobId{1, 2});
  CHECK(std::holds_alternative<CatalogRecord>(rest[1]));
  CHECK(std::get<TermRecord>(rest[2]).term.value == 2);
  CHECK(std::get<RecoverRecord>(rest[3]).generation.value == 2);
  CHECK(std::get<RunningRecord>(rest[4]).generation.value == 2);
  CHECK(std::get<RunningRecord>(rest[4]).incarnations.empty());
  CHECK(std::get<ManifestRecord>(rest[5]).id == Id(2, 6));
  CHECK(std::holds_alternative<DoneRecord>(rest[6]));
  const std::vector<LogRecord> undone = WithoutSnapshots(log, kKeep, {Id(2, 6)});
  CHECK(std::get<ManifestRecord>(undone.back()).id == Id(1, 4));
}

TEST_CASE("the records in force have what a coordinator goes on with, and nothing twice", "[server]") {
  std::vector<LogRecord> log = BeginningOfALog();
  log.insert(log.end(), {Manifest(Id(1, 4)), Manifest(Id(1, 5)), TermRecord{{2}}, Recover(2, Id(1, 4)),
                         RunningRecord{{2}, {{7}, {8}}}, Manifest(Id(2, 6)), DoneRecord{}});
  const std::vector<LogRecord> rest = RecordsInForce(log, kKeep);
  REQUIRE(rest.size() == 8);
  CHECK(std::get<TermRecord>(rest[2]).term.value == 2);
  CHECK(std::get<RecoverRecord>(rest[3]).generation.value == 2);
  CHECK(std::get<RunningRecord>(rest[4]).incarnations == std::vector<Incarnation>{{7}, {8}});
  CHECK(Existing(rest) == std::vector{Id(1, 4), Id(2, 6)});
  CHECK(std::holds_alternative<DoneRecord>(rest[7]));
  CHECK(RecordsInForce(rest, kKeep).size() == rest.size());
  log.push_back(Recover(3, Id(2, 6)));  // the coordinator ended before RUNNING
  for (const LogRecord& record : RecordsInForce(log, kKeep)) CHECK_FALSE(std::holds_alternative<RunningRecord>(record));
}

TEST_CASE("a run that goes on with more steps after its end is not done, whatever is left out", "[server]") {
  std::vector<LogRecord> log = BeginningOfALog();
  log.insert(log.end(), {Manifest(Id(1, 4)), DoneRecord{}, JobRecord{{1, 2}, "more steps"}, Manifest(Id(1, 6))});
  const auto is_done = [](const std::vector<LogRecord>& records) {
    return std::any_of(records.begin(), records.end(),
                       [](const LogRecord& record) { return std::holds_alternative<DoneRecord>(record); });
  };
  CHECK_FALSE(is_done(RecordsInForce(log, kKeep)));
  CHECK_FALSE(is_done(WithoutSnapshots(log, kKeep, {Id(1, 4)})));
  CHECK(std::get<JobRecord>(RecordsInForce(log, kKeep)[0]).job_file == "more steps");
}

}  // namespace
}  // namespace capstan::server
