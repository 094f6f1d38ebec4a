#include "server/coordinator/audit_log.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/base/rotated_file.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::server {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr AuditLog::WallTime kNoon{std::chrono::hours(12)};

std::string ContentOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<json> LinesOf(const std::string& path) {
  std::ifstream in(path);
  std::vector<json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

std::vector<AuditEntry> Refusals(std::size_t count) {
  std::vector<AuditEntry> entries;
  for (std::size_t i = 0; i < count; ++i) entries.push_back({AuditKind::kRefused, "\"w" + std::to_string(i) + "\""});
  return entries;
}

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  return info.st_mode & ACCESSPERMS;
}

TEST_CASE("an entry is a line with its time, its kind and its text", "[server][audit]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("audit.jsonl");
  Result<AuditLog> log = AuditLog::Open(path);
  REQUIRE(log.ok());
  const std::vector<AuditEntry> all = {{AuditKind::kJoined, "a", "worker \"w\""},
                                       {AuditKind::kRefused, "b"},
                                       {AuditKind::kTookOver, "c"},
                                       {AuditKind::kLeft, "d"},
                                       {AuditKind::kRecovery, "e"},
                                       {AuditKind::kSnapshotDeleted, "f\n\x01\"\xff"},
                                       {AuditKind::kLost, "g"},
                                       {AuditKind::kSetAside, "h"},
                                       {AuditKind::kStarted, "i"},
                                       {AuditKind::kSnapshot, "j"},
                                       {AuditKind::kEnded, "k"}};
  CHECK(log->Append(all, kNoon + milliseconds(999)).ok());
  CHECK(ContentOf(path) ==
        R"({"time":"1970-01-01T12:00:00Z","what":"joined","who":"worker \"w\"","text":"a"}
{"time":"1970-01-01T12:00:00Z","what":"refused","text":"b"}
{"time":"1970-01-01T12:00:00Z","what":"took over","text":"c"}
{"time":"1970-01-01T12:00:00Z","what":"left","text":"d"}
{"time":"1970-01-01T12:00:00Z","what":"recovery","text":"e"}
{"time":"1970-01-01T12:00:00Z","what":"snapshot deleted","text":"f\n\u0001\"?"}
{"time":"1970-01-01T12:00:00Z","what":"lost","text":"g"}
{"time":"1970-01-01T12:00:00Z","what":"set aside","text":"h"}
{"time":"1970-01-01T12:00:00Z","what":"started","text":"i"}
{"time":"1970-01-01T12:00:00Z","what":"snapshot","text":"j"}
{"time":"1970-01-01T12:00:00Z","what":"ended","text":"k"}
)");
  std::size_t read = 0;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line); ++read) {
    const std::optional<PastEntry> back = ParseAuditLine(line);
    REQUIRE(back);
    CHECK(back->time == 12 * 3600);
    CHECK(back->entry.kind == all[read].kind);
    CHECK(back->entry.who == all[read].who);
    if (read != 5) CHECK(back->entry.text == all[read].text);
  }
  CHECK(read == all.size());
}

TEST_CASE("a line that is no entry is not read as one", "[server][audit]") {
  for (const char* line :
       {"", "{", "[]", "7", R"({"what":"joined","text":"a"})", R"({"time":"yesterday","what":"joined","text":"a"})",
        R"({"time":"1970-01-01T12:00:00Z+","what":"joined","text":"a"})",
        R"({"time":"1970-01-01T12:00:00Z","what":"danced","text":"a"})",
        R"({"time":"1970-01-01T12:00:00Z","what":3,"text":"a"})",
        R"({"time":"1970-01-01T12:00:00Z","what":"joined","left_out":9})"}) {
    CAPTURE(line);
    CHECK_FALSE(ParseAuditLine(line));
  }
}

TEST_CASE("only its owner may read the file, also one that was there before", "[server][audit]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("audit.jsonl");
  CHECK(AuditLog::Open(path).ok());
  CHECK(ModeOf(path) == 0600);
  REQUIRE(chmod(path.c_str(), 0644) == 0);
  CHECK(AuditLog::Open(path).ok());
  CHECK(ModeOf(path) == 0600);
}

TEST_CASE("a flood is 16 lines of a kind in a second, and a count of the others", "[server][audit]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("audit.jsonl");
  Result<AuditLog> log = AuditLog::Open(path);
  REQUIRE(log.ok());
  for (int i = 0; i < 100; ++i) CHECK(log->Append(Refusals(10), kNoon + milliseconds(i)).ok());
  CHECK(log->Append({{AuditKind::kJoined, "w"}}, kNoon + milliseconds(500)).ok());  // has lines of its own
  CHECK(log->Append({}, kNoon + milliseconds(999)).ok());
  CHECK(LinesOf(path).size() == AuditLog::kLinesPerSecond + 1);
  CHECK(log->Append({}, kNoon + seconds(1)).ok());
  const json left_out = {{"time", "1970-01-01T12:00:00Z"}, {"what", "refused"}, {"left_out", 984}};
  REQUIRE(LinesOf(path).size() == AuditLog::kLinesPerSecond + 2);
  CHECK(LinesOf(path).back() == left_out);
  CHECK(log->Append(Refusals(17), kNoon + seconds(2)).ok());
  CHECK(log->End().ok());
  CHECK(LinesOf(path).size() == 2 * AuditLog::kLinesPerSecond + 3);
  CHECK(LinesOf(path).back()["left_out"] == 1);
}

TEST_CASE("the file is rotated, every piece is its owner's, and a long text is cut", "[server][audit]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("audit.jsonl");
  Result<AuditLog> log = AuditLog::Open(path, {.file_bytes = 5000, .former_files = 2});
  REQUIRE(log.ok());
  for (int i = 0; i < 50; ++i) {
    CHECK(log->Append({{AuditKind::kLeft, std::string(kAuditTextMax + 1, 'x')}}, kNoon + seconds(i)).ok());
  }
  const std::vector<std::string> former = FormerFiles(path);
  CHECK(former.size() == 2);
  for (const std::string& piece : former) {
    CHECK(ModeOf(piece) == 0600);
    CHECK(std::filesystem::file_size(piece) < 5000 + kAuditTextMax + 100);
    CHECK(LinesOf(piece).front()["text"] == std::string(kAuditTextMax, 'x'));
  }
  CHECK(ModeOf(path) == 0600);
}

TEST_CASE("lines that cannot be written are given up, and later ones follow", "[server][audit]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("audit.jsonl");
  Result<AuditLog> log = AuditLog::Open(path);
  REQUIRE(log.ok());
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit none{10, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &none);
  const Status failed = log->Append(Refusals(1), kNoon);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  CHECK_FALSE(failed.ok());
  CHECK(log->Append({{AuditKind::kJoined, "later"}}, kNoon).ok());
  REQUIRE(LinesOf(path).size() == 1);
  CHECK(LinesOf(path)[0]["text"] == "later");
}

}  // namespace
}  // namespace capstan::server
