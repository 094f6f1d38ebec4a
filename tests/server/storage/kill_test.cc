#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "server/storage/file_coordinator_log.h"
#include "server/storage/rocks_push_log.h"
#include "server/storage/rocks_snapshot_store.h"
#include "tests/catch.h"
#include "tests/server/storage/child_shape.h"
#include "tests/server/storage/push_log_tools.h"
#include "tests/server/storage/storage_tools.h"
#include "tests/tier.h"

namespace capstan::server {
namespace {

namespace files = std::filesystem;

// A storage_child process and the lines that it prints.
class Child {
 public:
  Child(const std::string& mode, const std::string& path) {
    int in[2], out[2];
    CAPSTAN_CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::string program = CAPSTAN_STORAGE_CHILD, first = mode, second = path;
    char* arguments[] = {program.data(), first.data(), second.data(), nullptr};
    char* nothing[] = {nullptr};
    CAPSTAN_CHECK(posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments, nothing) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    input_ = in[1];
    output_ = out[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (process_ > 0) Kill();
    close(output_);
  }

  // Reads until the child has printed `count` lines in all, or has ended.
  void WaitForLines(std::size_t count) {
    while (lines_.size() < count && ReadSome()) {
    }
  }
  // For this long, reads what the child prints. Returns false if the child has ended.
  bool WatchFor(std::chrono::microseconds time) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (true) {
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left.count() <= 0) return true;
      const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
      const timespec most{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
      pollfd watched{.fd = output_, .events = POLLIN, .revents = 0};
      if (ppoll(&watched, 1, &most, nullptr) > 0 && !ReadSome()) return false;
    }
  }
  // Sends SIGKILL, then reads everything that the child had printed.
  const std::vector<std::string>& Kill() {
    kill(process_, SIGKILL);
    return End();
  }
  // Closes the child's input, and waits until the child ends.
  const std::vector<std::string>& End() {
    close(std::exchange(input_, -1));
    while (ReadSome()) {
    }
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    return lines_;
  }
  void CloseInput() { close(std::exchange(input_, -1)); }

 private:
  bool ReadSome() {
    char bytes[4096];
    const ssize_t count = read(output_, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return false;
    text_.append(bytes, static_cast<std::size_t>(count));
    for (std::size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      lines_.push_back(text_.substr(0, end));
    }
    return true;
  }

  pid_t process_ = -1;
  int input_ = -1, output_ = -1;
  std::string text_;
  std::vector<std::string> lines_;
};

// What killed writers have printed: the snapshots that were written, and those that may have been removed.
struct Ledger {
  std::map<std::uint64_t, std::uint64_t> written;  // digest by version
  std::set<std::uint64_t> removing;

  void Take(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      std::istringstream words(line);
      std::string what;
      std::uint64_t version = 0, digest = 0;
      words >> what >> version >> digest;
      INFO(line);
      REQUIRE((what == "begin" || what == "written" || what == "removing"));
      if (what == "removing") removing.insert(version);
      if (what == "written") written[version] = digest;
    }
  }
};

void CheckDirectory(const std::string& folder, const Ledger& ledger) {
  auto store = RocksSnapshotStore::Open(folder, 0, 0);
  REQUIRE(store.status().message() == "");
  std::set<std::uint64_t> here;
  for (const SnapshotPart& part : store.value()->List()) {
    here.insert(part.id.version.value);
    REQUIRE(LoadAndCompare(store.value().get(), part.id, 0, part.digest, kChildShape).message() == "");
  }
  for (const auto& [version, digest] : ledger.written) {
    INFO("version " << version);
    REQUIRE((here.contains(version) || ledger.removing.contains(version)));
    if (here.contains(version)) REQUIRE(store.value()->ReadHeader({{1}, {version}}, 0).value()->Digest() == digest);
  }
}

TEST_CASE("a shard killed at any moment leaves whole snapshots, and every one that was said to be written",
          "[server][storage][kill]") {
  const TempFolder run(TempFolder::Where::kDisk);
  const std::string folder = run.path() + "/snapshots";
  RandomStream random(31);
  Ledger ledger;
  int in_the_middle = 0;
  const int rounds = testing::TestTier() == testing::Tier::kAll ? 12 : 6;
  for (int round = 0; round < rounds || (in_the_middle == 0 && round < 60); ++round) {
    Child child("snapshots", folder);
    child.WaitForLines(random.Below(12));
    child.WatchFor(std::chrono::microseconds(random.Below(10'000)));
    ledger.Take(child.Kill());
    std::error_code none;
    if (files::directory_iterator(folder + "/shard-0/incoming", none) != files::directory_iterator()) ++in_the_middle;
    CheckDirectory(folder, ledger);
  }
  CHECK(in_the_middle > 0);
  CHECK(ledger.written.size() > 2);
}

TEST_CASE("a shard killed while it removes another's folder leaves nothing that keeps that shard from starting",
          "[server][storage][kill]") {
  const TempFolder run(TempFolder::Where::kDisk);
  const std::string folder = run.path() + "/snapshots";
  const std::string incoming = folder + "/shard-0/incoming";
  int in_the_middle = 0;
  for (int round = 0; round < 4 || (in_the_middle == 0 && round < 60); ++round) {
    Child child("orphans", folder);
    child.WaitForLines(1);
    bool runs = true;  // until the removal has begun
    while (runs && files::exists(folder + "/shard-1/others/0")) runs = child.WatchFor(std::chrono::microseconds(100));
    const std::vector<std::string>& lines = child.Kill();
    REQUIRE_FALSE(lines.empty());
    INFO(lines.back());
    REQUIRE(lines.back().starts_with("removing "));
    REQUIRE(runs);
    if (files::exists(incoming + "/removed-1")) ++in_the_middle;
    REQUIRE(RocksSnapshotStore::Open(folder, 1, 0).status().message() == "");
    REQUIRE(RocksSnapshotStore::Open(folder, 0, 0).status().message() == "");
    REQUIRE(files::is_empty(incoming));
  }
  CHECK(in_the_middle > 0);
}

TEST_CASE("a coordinator killed while it appends leaves all that it was promised", "[server][storage][kill]") {
  const TempFolder run(TempFolder::Where::kDisk);
  const std::string path = run.path() + "/log";
  RandomStream random(32);
  std::uint64_t promised = 0;
  for (int round = 0; round < 20; ++round) {
    Child child("log", path);
    child.WaitForLines(random.Below(20));
    child.WatchFor(std::chrono::microseconds(random.Below(3'000)));
    for (const std::string& line : child.Kill()) {
      REQUIRE(line.starts_with("appended "));
      promised = std::stoull(line.substr(9));
    }
    auto log = FileCoordinatorLog::Open(path, 0);
    REQUIRE(log.status().message() == "");
    const std::vector<LogRecord>& records = log.value()->records();
    REQUIRE(records.size() >= promised);
    for (std::size_t i = 0; i < records.size(); ++i) REQUIRE(std::get<TermRecord>(records[i]).term.value == i + 1);
  }
  CHECK(promised > 50);
}

TEST_CASE("a shard killed while it appends to its log finds all that was acknowledged", "[server][storage][kill]") {
  const TempFolder run(TempFolder::Where::kDisk);
  RandomStream random(33);
  std::uint64_t promised = 0;
  for (int round = 0; round < 20; ++round) {
    Child child("pushes", run.path());
    child.WaitForLines(random.Below(12));
    child.WatchFor(std::chrono::microseconds(random.Below(8'000)));
    for (const std::string& line : child.Kill()) {
      INFO(line);
      REQUIRE(line.starts_with("appended "));
      promised = std::stoull(line.substr(9));
    }
    auto log = RocksPushLog::Open(run.path());
    REQUIRE(log.status().message() == "");
    if (log.value()->Read(kLogTimeline, 1, 1).status().code() == Code::kInvalid) continue;  // killed before it began
    const auto records = ReadAll(log.value().get(), 1);
    REQUIRE(records.status().message() == "");
    REQUIRE(records->size() >= promised);
    for (std::size_t i = 0; i < records->size(); ++i) REQUIRE(SameRecord((*records)[i], MakeRecord(kChildKey, i + 1)));
  }
  CHECK(promised > 50);
}

TEST_CASE("a directory in use by another process is refused, and is free when that one ends or is killed",
          "[server][storage][kill]") {
  const TempFolder run(TempFolder::Where::kDisk);
  const std::string folder = run.path() + "/snapshots";
  const bool killed = GENERATE(false, true);
  Child child("hold", folder);
  child.WaitForLines(1);
  const Status refused = RocksSnapshotStore::Open(folder, 0, 0.01).status();
  CHECK(refused.code() == Code::kUnreachable);
  CHECK(refused.message().find(folder + "/shard-0") == 0);
  Status opened = Refused("it was not tried");
  std::thread waiting([&] { opened = RocksSnapshotStore::Open(folder, 0, 60).status(); });
  CHECK((killed ? child.Kill() : child.End()) == std::vector<std::string>{"open"});
  waiting.join();
  CHECK(opened.ok());
}

}  // namespace
}  // namespace capstan::server
