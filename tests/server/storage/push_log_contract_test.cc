// The contract of every PushLog, in memory and on disk.
#include "server/storage/memory_push_log.h"
#include "server/storage/rocks_push_log.h"
#include "tests/catch.h"
#include "tests/server/storage/push_log_tools.h"

namespace capstan::server {
namespace {

constexpr std::uint64_t kEverything = UINT64_MAX;

// A log in memory. Opening it again does nothing, so it keeps its contents.
class MemoryLogs {
 public:
  PushLog* log() { return &log_; }
  void OpenAgain() {}

 private:
  MemoryPushLog log_;
};

class RocksLogs {
 public:
  RocksLogs() { OpenAgain(); }
  PushLog* log() { return log_.get(); }
  void OpenAgain() {
    log_.reset();
    auto opened = RocksPushLog::Open(folder_.path(), 1000);  // some records to a segment
    REQUIRE(opened.status().message() == "");
    log_ = std::move(opened).value();
  }

 private:
  TempFolder folder_;
  std::unique_ptr<PushLog> log_;
};

TEMPLATE_TEST_CASE("what was appended is read again, bit by bit, from any number on", "[server][storage][log]",
                   MemoryLogs, RocksLogs) {
  TestType logs;
  REQUIRE(logs.log()->Begin(kLogTimeline).message() == "");
  CHECK(ReadAll(logs.log(), 1).value().empty());
  std::vector<PushLogRecord> all;
  for (std::uint64_t batch = 1; batch <= 7; ++batch) {
    const std::vector<PushLogRecord> records = MakeRecords(batch, batch * 2);
    REQUIRE(logs.log()->Append(kLogTimeline.id, all.size() + 1, records).message() == "");
    all.insert(all.end(), records.begin(), records.end());
    if (batch % 3 == 0) logs.OpenAgain();
  }
  for (std::uint64_t from :
       {std::size_t{1}, std::size_t{2}, all.size() / 2, all.size(), all.size() + 1, all.size() + 9}) {
    const Result<std::vector<PushLogRecord>> read = ReadAll(logs.log(), from);
    REQUIRE(read.status().message() == "");
    REQUIRE(read->size() == (from > all.size() ? 0 : all.size() - from + 1));
    for (std::size_t i = 0; i < read->size(); ++i) REQUIRE(SameRecord((*read)[i], all[from - 1 + i]));
  }
}

TEMPLATE_TEST_CASE("a long log is read in pieces of bounded size", "[server][storage][log]", MemoryLogs, RocksLogs) {
  TestType logs;
  REQUIRE(logs.log()->Begin(kLogTimeline).ok());
  REQUIRE(logs.log()->Append(kLogTimeline.id, 1, MakeRecords(1, 20)).ok());
  const Result<PushLog::Piece> one = logs.log()->Read(kLogTimeline, 1, 1);
  REQUIRE(one.ok());
  CHECK(one->records.size() == 1);
  CHECK(!one->last);
  const Result<PushLog::Piece> whole = logs.log()->Read(kLogTimeline, 1, kEverything);
  REQUIRE(whole.ok());
  CHECK(whole->records.size() == 20);
  CHECK(whole->last);
}

TEMPLATE_TEST_CASE("a log is of one timeline and one number of shards", "[server][storage][log]", MemoryLogs,
                   RocksLogs) {
  TestType logs;
  CHECK(logs.log()->Read(kLogTimeline, 1, kEverything).status().code() == Code::kInvalid);  // there is none yet
  REQUIRE(logs.log()->Begin(kLogTimeline).ok());
  REQUIRE(logs.log()->Append(kLogTimeline.id, 1, MakeRecords(1, 3)).ok());
  const LogTimeline later{kLogTimeline.id.Next(), kLogTimeline.shard_count};
  const LogTimeline wider{kLogTimeline.id, kLogTimeline.shard_count + 1};
  CHECK(logs.log()->Read(later, 1, kEverything).status().code() == Code::kInvalid);
  CHECK(logs.log()->Read(wider, 1, kEverything).status().message().find("shards, the job has") != std::string::npos);
  CHECK(logs.log()->Append(later.id, 4, MakeRecords(2, 1)).code() == Code::kInvalid);
  REQUIRE(logs.log()->Begin(later).ok());
  logs.OpenAgain();
  CHECK(logs.log()->Read(kLogTimeline, 1, kEverything).status().code() == Code::kInvalid);
  CHECK(ReadAll(logs.log(), 1, later).value().empty());
}

TEMPLATE_TEST_CASE("an append takes the place of what is there from its first number on", "[server][storage][log]",
                   MemoryLogs, RocksLogs) {
  TestType logs;
  REQUIRE(logs.log()->Begin(kLogTimeline).ok());
  REQUIRE(logs.log()->Append(kLogTimeline.id, 1, MakeRecords(1, 4)).ok());
  const std::vector<PushLogRecord> again = MakeRecords(1, 4);
  REQUIRE(logs.log()->Append(kLogTimeline.id, 5, again).ok());
  const Result<std::vector<PushLogRecord>> read = ReadAll(logs.log(), 5);
  REQUIRE(read.ok());
  REQUIRE(read->size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(SameRecord((*read)[i], again[i]));
}

TEMPLATE_TEST_CASE("what was trimmed is not asked for; what came after it is whole", "[server][storage][log]",
                   MemoryLogs, RocksLogs) {
  TestType logs;
  REQUIRE(logs.log()->Begin(kLogTimeline).ok());
  for (std::uint64_t i = 0; i < 30; ++i) {
    REQUIRE(logs.log()->Append(kLogTimeline.id, 1 + i, MakeRecords(i, 1)).ok());
  }
  REQUIRE(logs.log()->Trim(20).ok());
  logs.OpenAgain();
  CHECK(ReadAll(logs.log(), 20).value().size() == 11);
  const Status gone = ReadAll(logs.log(), 1).status();
  CHECK(gone.code() == Code::kCorrupt);
  CHECK(gone.message().find("the log begins with record") != std::string::npos);
  REQUIRE(logs.log()->Trim(1000).ok());
  REQUIRE(logs.log()->Append(kLogTimeline.id, 1000, MakeRecords(5, 2)).ok());  // as behind a snapshot's log_begin
  CHECK(ReadAll(logs.log(), 1000).value().size() == 2);
}

}  // namespace
}  // namespace capstan::server
