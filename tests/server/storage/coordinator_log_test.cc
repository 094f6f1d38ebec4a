#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "server/storage/file_coordinator_log.h"
#include "server/storage/sealed_text.h"
#include "tests/catch.h"
#include "tests/server/storage/storage_tools.h"

namespace capstan::server {
namespace {

std::vector<LogRecord> SomeRecords(std::size_t count) {
  RandomStream random(11);
  std::vector<LogRecord> records;
  for (std::size_t i = 0; i < count; ++i)
    records.push_back(testing::RandomRecord(i % std::variant_size_v<LogRecord>, random));
  return records;
}

void CheckSame(const std::vector<LogRecord>& have, const std::vector<LogRecord>& all, std::size_t count) {
  REQUIRE(have.size() == count);
  for (std::size_t i = 0; i < count; ++i) REQUIRE(testing::SameRecord(have[i], all[i]));
}

// Writes the records and returns the file's bytes.
std::string WriteLog(const std::string& path, const std::vector<LogRecord>& records) {
  auto log = FileCoordinatorLog::Open(path, 0);
  REQUIRE(log.ok());
  for (const LogRecord& record : records) REQUIRE(log.value()->Append(record).ok());
  CheckSame(log.value()->records(), records, records.size());
  return ReadWholeFile(path);
}

TEST_CASE("a log that is opened again has its records and goes on", "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/log";
  const std::vector<LogRecord> records = SomeRecords(24);
  for (std::size_t have = 0; have < records.size(); have += 8) {
    auto log = FileCoordinatorLog::Open(path, 0);
    REQUIRE(log.ok());
    CheckSame(log.value()->records(), records, have);
    for (std::size_t i = have; i < have + 8; ++i) REQUIRE(log.value()->Append(records[i]).ok());
  }
  CheckSame(FileCoordinatorLog::Open(path, 0).value()->records(), records, records.size());
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

// Earlier builds counted sessions, and reserved their ids in the log.
TEST_CASE("a log with records of reserved sessions is read without them, and goes on", "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/log";
  const std::string old =
      R"(89888f22a0ef2d7b {"what":"capstan coordinator log","format":1}
e889a691530c3df2 {"record":"job","job":[1,2],"job_file":"[job]\nsteps = 5\n"}
5bb99672da41812b {"record":"catalog","tensors":[["w",[2,3],2,1056964608,true,0,0]],"numeric_class":"class","numeric_fingerprint":3,"data_fingerprint":4}
5139c19ef6a63d54 {"record":"term","term":2}
0afe0f3d8b3537b2 {"record":"session","session":5}
)";
  WriteWholeFile(path, old);
  auto log = FileCoordinatorLog::Open(path, 0);
  REQUIRE(log.status().message() == "");
  REQUIRE(log.value()->records().size() == 3);
  CHECK(std::holds_alternative<TermRecord>(log.value()->records().back()));
  REQUIRE(log.value()->Append(TermRecord{{3}}).ok());
  log.value().reset();
  CHECK(ReadWholeFile(path).starts_with(old));
  log = FileCoordinatorLog::Open(path, 0);
  REQUIRE(log.ok());
  REQUIRE(log.value()->records().size() == 4);
  CHECK(std::get<TermRecord>(log.value()->records().back()).term == Term{3});
}

TEST_CASE("a last record cut at any byte is gone, and everything in front of it is there", "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/log";
  std::vector<LogRecord> records = SomeRecords(7);
  WriteLog(path, records);
  const std::size_t before = ReadWholeFile(path).size();
  records.push_back(RunningRecord{{3}, {{1}, {2}}});
  std::filesystem::remove(path);
  const std::string whole = WriteLog(path, records);
  for (std::size_t size = before; size < whole.size(); ++size) {
    WriteWholeFile(path, whole.substr(0, size));
    auto log = FileCoordinatorLog::Open(path, 0);
    REQUIRE(log.status().message() == "");
    CheckSame(log.value()->records(), records, 7);
    REQUIRE(log.value()->Append(records[7]).ok());
    log.value().reset();
    REQUIRE(ReadWholeFile(path) == whole);
  }
}

TEST_CASE("a first line cut at any byte is written again", "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/log";
  const std::string whole = WriteLog(path, {});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    WriteWholeFile(path, whole.substr(0, size));
    REQUIRE(FileCoordinatorLog::Open(path, 0).ok());
    REQUIRE(ReadWholeFile(path) == whole);
  }
}

TEST_CASE("a bit flipped anywhere in front of the last record refuses, and names the line", "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/log";
  std::vector<LogRecord> records = {TermRecord{{1}}, CatalogRecord{}, RunningRecord{{1}, {{5}}}};
  WriteLog(path, records);
  const std::size_t before = ReadWholeFile(path).size();
  std::filesystem::remove(path);
  records.push_back(TermRecord{{2}});
  const std::string whole = WriteLog(path, records);
  RandomStream random(12);
  for (std::size_t at = 0; at < before; ++at) {
    std::string bad = whole;
    bad[at] ^= static_cast<char>(1 << random.Below(8));
    WriteWholeFile(path, bad);
    const Status status = FileCoordinatorLog::Open(path, 0).status();
    INFO("byte " << at << ": " << status.ToString());
    REQUIRE(status.code() == Code::kCorrupt);
    const auto line = 1 + std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    REQUIRE(status.message().find(path + ":" + std::to_string(line) + ": ") == 0);
    REQUIRE(ReadWholeFile(path) == bad);
  }
}

TEST_CASE("a line that is missing, doubled or out of place refuses", "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/log";
  const std::string text = WriteLog(path, {TermRecord{{1}}, TermRecord{{2}}, TermRecord{{3}}});
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  REQUIRE(lines.size() == 4);
  const auto open = [&](std::initializer_list<std::size_t> order) {
    std::string mixed;
    for (const std::size_t i : order) mixed += lines[i];
    WriteWholeFile(path, mixed);
    return FileCoordinatorLog::Open(path, 0).status().code();
  };
  CHECK(open({0, 1, 2, 3}) == Code::kOk);
  CHECK(open({0, 2, 3}) == Code::kCorrupt);
  CHECK(open({0, 1, 1, 2, 3}) == Code::kCorrupt);
  CHECK(open({0, 2, 1, 3}) == Code::kCorrupt);
  CHECK(open({1, 2, 3}) == Code::kCorrupt);
}

TEST_CASE("a log of a newer format, or no log at all, is left alone", "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/log";
  const std::string newer = Seal(0, R"({"what":"capstan coordinator log","format":2})") + "\n";
  WriteWholeFile(path, newer);
  CHECK(FileCoordinatorLog::Open(path, 0).status().code() == Code::kUnsupported);
  CHECK(ReadWholeFile(path) == newer);
  const std::string other = Seal(0, R"({"what":"a diary","format":1})") + "\n";
  WriteWholeFile(path, other);
  CHECK(FileCoordinatorLog::Open(path, 0).status().code() == Code::kCorrupt);
  CHECK(ReadWholeFile(path) == other);
}

TEST_CASE("a damaged line of any length is judged by reading it once", "[server][storage]") {
  constexpr std::size_t kBraces = std::size_t{8} << 20;
  const TempFolder folder;
  const std::string path = folder.path() + "/log";
  WriteLog(path, {TermRecord{{1}}});
  const std::string whole = ReadWholeFile(path), braces(kBraces, '}');
  const std::string good =
      Seal(*StatedHash(std::string_view(whole).substr(whole.find('\n') + 1)), R"({"record":"done"})");
  WriteWholeFile(path, whole + std::string(16, '0') + " {" + braces);
  CHECK(FileCoordinatorLog::Look(path)->size() == 1);  // as a record that was cut
  WriteWholeFile(path, whole + good + braces);
  CHECK(FileCoordinatorLog::Look(path).status().code() == Code::kCorrupt);
}

TEST_CASE("a file that is no log is refused and not touched", "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/log";
  for (const char* text : {"a diary\n", "a diary", "\n", "89888f22a0ef2d7c"}) {
    WriteWholeFile(path, text);
    CHECK(FileCoordinatorLog::Open(path, 0).status().code() == Code::kCorrupt);
    CHECK(ReadWholeFile(path) == text);
  }
}

TEST_CASE("a second coordinator is refused, waits as long as it may, and gets the log of one that ends",
          "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/log";
  auto first = FileCoordinatorLog::Open(path, 0);
  REQUIRE(first.ok());
  const Status refused = FileCoordinatorLog::Open(path, 0.01).status();
  CHECK(refused.code() == Code::kRefused);
  CHECK(refused.message().find(path) == 0);
  std::thread second([&] { CHECK(FileCoordinatorLog::Open(path, 60).ok()); });
  first.value().reset();
  second.join();
}

TEST_CASE("after a write that failed nothing is ever appended again", "[server][storage]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/log";
  auto log = FileCoordinatorLog::Open(path, 0);
  REQUIRE(log.ok());
  REQUIRE(log.value()->Append(TermRecord{{1}}).ok());
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = ReadWholeFile(path).size() + 10;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Status failed = log.value()->Append(TermRecord{{2}});
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(failed.code() == Code::kUnreachable);
  CHECK(log.value()->Append(TermRecord{{3}}).code() == Code::kUnreachable);
  CHECK(log.value()->records().size() == 1);
  log.value().reset();
  auto again = FileCoordinatorLog::Open(path, 0);  // a half-written record is a torn tail
  REQUIRE(again.ok());
  CheckSame(again.value()->records(), {TermRecord{{1}}}, 1);
}

}  // namespace
}  // namespace capstan::server
