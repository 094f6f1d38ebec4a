// The coordinator's files as a power cut, or a kill at any moment, would leave them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>

#include "common/base/durable_file.h"
#include "common/base/rotated_file.h"
#include "common/data/safetensors.h"
#include "server/coordinator/step_log.h"
#include "server/storage/file_coordinator_log.h"
#include "server/storage/log_record_codec.h"
#include "server/storage/manifests.h"
#include "tests/catch.h"
#include "tests/disk_calls/disk_calls.h"
#include "tests/temp_folder.h"

namespace capstan::server {
namespace {

using Kind = testing::DiskCalls::Call::Kind;
using testing::DiskCalls;
using testing::TempFolder;
using Lines = std::vector<std::string>;

constexpr FileCoordinatorLog::Compaction kOften{.keep = 2, .bytes_min = 600};

// Returns the records of a job that loses shards, takes snapshots, gains workers, and finishes.
std::vector<LogRecord> JobRecords(std::uint64_t rounds) {
  std::vector<LogRecord> records = {JobRecord{{1, 2}, "the job"}, CatalogRecord{}};
  SnapshotId newest;
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    records.push_back(TermRecord{{round}});
    records.push_back(RecoverRecord{{round}, newest, {}, {round}});
    records.push_back(RunningRecord{{round}, {{round}, {round + 1}}});
    for (std::uint64_t step = 1; step <= 3; ++step) {
      newest = {{round}, {10 * round + step}};
      records.push_back(ManifestRecord{newest, {}, {step, round}, 100});
    }
  }
  records.push_back(DoneRecord{});
  return records;
}

std::string Print(const std::vector<LogRecord>& records) {
  std::string text;
  for (const LogRecord& record : records) text += EncodeLogRecord(record).value() + "\n";
  return text;
}

std::string InForce(const std::vector<LogRecord>& records) { return Print(RecordsInForce(records, kOften.keep)); }

// Counts the progress of a child process that may end at any moment.
class Counter {
 public:
  Counter() {
    void* memory = mmap(nullptr, sizeof *count_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CAPSTAN_CHECK(memory != MAP_FAILED);
    count_ = new (memory) std::atomic<std::size_t>(0);
  }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  ~Counter() { munmap(count_, sizeof *count_); }
  void Add() { count_->fetch_add(1); }
  std::size_t value() const { return count_->load(); }

 private:
  std::atomic<std::size_t>* count_ = nullptr;
};

// Runs `body` in a process that ends before its disk call number `end_at`. Returns whether `body` finished.
bool RunUntil(const std::string& below, std::size_t end_at, const std::function<void()>& body) {
  const pid_t child = fork();
  CAPSTAN_CHECK(child >= 0);
  if (child == 0) {
    DiskCalls calls(below);
    calls.end_at = end_at;
    body();
    _exit(7);
  }
  int status = 0;
  CAPSTAN_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status) == 7;
}

TEST_CASE("what is acknowledged is durable, and so is every file's name", "[server][power_cut]") {
  const TempFolder folder;
  DiskCalls calls(folder.path());

  SECTION("a file that is written in one piece") {
    CHECK(WriteFileDurably(folder.path("job.toml"), "text").ok());
    CHECK(WriteFileDurably(folder.path("job.toml"), "other").ok());
  }
  SECTION("folders") { CHECK(MakeFolders(folder.path("runs/digits/snapshots")).ok()); }
  SECTION("the coordinator's log, over compactions") {
    const std::string path = folder.path("coordinator.log");
    auto log = FileCoordinatorLog::Open(path, 0, kOften).value();
    for (const LogRecord& record : JobRecords(9)) {
      REQUIRE(log->Append(record).ok());
      REQUIRE(calls.NotDurable() == Lines());
    }
    CHECK(InForce(log->records()) == InForce(JobRecords(9)));
    const std::vector<DiskCalls::Call> made = calls.calls();
    CHECK(
        std::any_of(made.begin(), made.end(), [](const DiskCalls::Call& call) { return call.kind == Kind::kRename; }));
    log.reset();
    REQUIRE(FileCoordinatorLog::Open(path, 0).value()->Replace({TermRecord{{5}}}).ok());
  }
  SECTION("final weights") {
    auto writer = SafetensorsWriter::Create(folder.path("final.safetensors"), {{"w", {2}, {}}}).value();
    const float values[2] = {1, 2};
    REQUIRE(writer.Write(0, std::as_bytes(std::span(values))).ok());
    REQUIRE(writer.Commit().ok());
  }
  CHECK(!calls.calls().empty());
  CHECK(calls.NotDurable() == Lines());
}

TEST_CASE("after a failed fsync a log is written again before it is believed", "[server][power_cut]") {
  const TempFolder folder;
  const std::string path = folder.path("coordinator.log");
  DiskCalls calls(folder.path());
  auto log = FileCoordinatorLog::Open(path, 0).value();
  REQUIRE(log->Append(TermRecord{{1}}).ok());
  calls.fail = [](const DiskCalls::Call& call) { return call.kind == Kind::kSync ? EIO : 0; };
  CHECK(log->Append(TermRecord{{2}}).code() == Code::kUnreachable);
  log.reset();
  CHECK(FileCoordinatorLog::Open(path, 0).status().code() == Code::kUnreachable);
  calls.fail = nullptr;
  CHECK(calls.NotDurable() != Lines());
  log = FileCoordinatorLog::Open(path, 0).value();
  CHECK(Print(log->records()) == Print({TermRecord{{1}}, TermRecord{{2}}}));
  CHECK(calls.NotDurable() == Lines());
}

TEST_CASE("a coordinator that ends anywhere in its log's life loses no record that was acknowledged",
          "[server][power_cut]") {
  const std::vector<LogRecord> all = JobRecords(4);
  for (std::size_t end_at = 0; true; ++end_at) {
    const TempFolder folder;
    const std::string path = folder.path("coordinator.log");
    Counter done;
    const bool whole = RunUntil(folder.path(), end_at, [&] {
      auto log = FileCoordinatorLog::Open(path, 0, kOften);
      for (std::size_t i = 0; log.ok() && i < all.size() && log.value()->Append(all[i]).ok(); ++i) done.Add();
    });
    INFO("it ended in front of call " << end_at << ", after " << done.value() << " records");
    for (int opened = 0; opened < 2; ++opened) {  // also with the files that the first one repaired
      const auto log = FileCoordinatorLog::Open(path, 0, kOften);
      REQUIRE(log.status().message() == "");
      const std::string have = InForce(log.value()->records());
      const auto known = [&](std::size_t count) {
        return InForce({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()))});
      };
      REQUIRE((have == known(done.value()) || have == known(done.value() + 1)));
    }
    CHECK_FALSE(std::filesystem::exists(path + ".partial"));
    if (whole) break;
  }
}

TEST_CASE("a full disk anywhere in its log's life costs no record, and the same append succeeds later",
          "[server][power_cut]") {
  const std::vector<LogRecord> all = JobRecords(4);
  for (std::size_t fail_at = 0; true; ++fail_at) {
    const TempFolder folder;
    const std::string path = folder.path("coordinator.log");
    auto log = FileCoordinatorLog::Open(path, 0, kOften).value();
    DiskCalls calls(folder.path());
    std::size_t writes = 0;
    calls.fail = [&](const DiskCalls::Call& call) {
      const bool takes_room = call.kind == Kind::kWrite || call.kind == Kind::kCreate || call.kind == Kind::kRename;
      return takes_room && writes++ == fail_at ? ENOSPC : 0;
    };
    for (const LogRecord& record : all) {
      Status status = log->Append(record);
      if (status.code() == Code::kBusy) status = log->Append(record);
      REQUIRE(status.message() == "");
    }
    REQUIRE(InForce(log->records()) == InForce(all));
    log.reset();
    calls.fail = nullptr;
    REQUIRE(InForce(FileCoordinatorLog::Open(path, 0).value()->records()) == InForce(all));
    if (writes <= fail_at) break;
  }
}

TEST_CASE("a log's size follows from what is in force, not from how long the job has run", "[server][power_cut]") {
  const TempFolder folder;
  const std::string path = folder.path("coordinator.log");
  auto log = FileCoordinatorLog::Open(path, 0, kOften).value();
  std::uintmax_t most = 0;
  std::size_t records_most = 0;
  for (const LogRecord& record : JobRecords(2000)) {
    REQUIRE(log->Append(record).ok());
    most = std::max(most, std::filesystem::file_size(path));
    records_most = std::max(records_most, log->records().size());
  }
  CHECK(InForce(log->records()) == InForce(JobRecords(2000)));
  CHECK(most < 2 * kOften.bytes_min + FileCoordinatorLog::kGrowth * Print(RecordsInForce(log->records(), 2)).size());
  CHECK(records_most < 100);
}

// ---- metrics.jsonl -------------------------------------------------------------------------------------------------

StepRecord StepOf(std::uint64_t step) {
  StepRecord record;
  record.step = Step{step};
  return record;
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string AllLines(const std::string& path) {
  std::string text;
  for (const std::string& former : FormerFiles(path)) text += ReadText(former);
  return text + ReadText(path);
}

constexpr LineFileLimits kSmallFiles{.file_bytes = 500, .former_files = 100};

TEST_CASE("a process that ends while it puts metrics.jsonl aside loses no line", "[server][power_cut]") {
  std::string all;
  for (std::uint64_t step = 0; step < 12; ++step) all += StepLine(StepOf(step)) + "\n";
  for (std::size_t end_at = 0; true; ++end_at) {
    const TempFolder folder;
    const std::string path = folder.path("metrics.jsonl");
    Counter done;
    const bool whole = RunUntil(folder.path(), end_at, [&] {
      auto log = StepLog::Open(path, kSmallFiles);
      for (std::uint64_t step = 0; step < 12 && log.ok() && log->Append({StepOf(step)}).ok(); ++step) done.Add();
    });
    INFO("it ended in front of call " << end_at << ", after " << done.value() << " lines");
    REQUIRE(StepLog::Open(path, kSmallFiles).ok());
    const std::string have = AllLines(path);
    REQUIRE(all.starts_with(have));
    REQUIRE(static_cast<std::size_t>(std::count(have.begin(), have.end(), '\n')) >= done.value());
    if (!whole) continue;
    CHECK(have == all);
    CHECK(FormerFiles(path).size() == 2);
    break;
  }
}

TEST_CASE("a full disk leaves lines for later, whole and in order, wherever it becomes full", "[server][power_cut]") {
  std::string all;
  for (std::uint64_t step = 0; step < 12; ++step) all += StepLine(StepOf(step)) + "\n";
  for (std::size_t fail_at = 0; true; ++fail_at) {
    const TempFolder folder;
    const std::string path = folder.path("metrics.jsonl");
    auto log = StepLog::Open(path, kSmallFiles).value();
    DiskCalls calls(folder.path());
    std::size_t writes = 0;
    calls.fail = [&](const DiskCalls::Call& call) {
      const bool takes_room = call.kind == Kind::kWrite || call.kind == Kind::kCreate || call.kind == Kind::kRename;
      return takes_room && writes++ == fail_at ? ENOSPC : 0;
    };
    for (std::uint64_t step = 0; step < 12; ++step) {
      Status status = log.Append({StepOf(step)});
      if (status.code() == Code::kBusy) status = log.Flush();
      REQUIRE(status.message() == "");
    }
    REQUIRE(AllLines(path) == all);
    if (writes <= fail_at) break;
  }
}

TEST_CASE("only the newest former files are kept", "[server][power_cut]") {
  const TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  auto log = StepLog::Open(path, {.file_bytes = 1, .former_files = 3}).value();
  for (std::uint64_t step = 0; step < 8; ++step) REQUIRE(log.Append({StepOf(step)}).ok());
  CHECK(FormerFiles(path) ==
        Lines{folder.path("metrics.6.jsonl"), folder.path("metrics.7.jsonl"), folder.path("metrics.8.jsonl")});
  CHECK(AllLines(path).starts_with(StepLine(StepOf(5))));
}

}  // namespace
}  // namespace capstan::server
