#include "cli/run/run_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "common/config/job_config.h"
#include "server/storage/file_coordinator_log.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using testing::TempFolder;

TEST_CASE("a run directory is held by one job and used for one run", "[cli][run_directory]") {
  const TempFolder scratch;
  const std::string path = scratch.path("a/b");
  {
    const Result<RunDirectory> first = RunDirectory::Create(path, "job");
    REQUIRE(first.ok());
    CHECK(std::filesystem::is_directory(path + "/logs"));
    const Status second = RunDirectory::Create(path, "job").status();
    CHECK(second.code() == Code::kInvalid);
    CHECK(second.message().find("in use by another job (process ") != std::string::npos);
  }
  CHECK(RunDirectory::Create(path, "job").ok());
  std::ofstream(path + "/metrics.jsonl") << "{}\n";
  CHECK(RunDirectory::Create(path, "job").status().message().find("holds a run already") != std::string::npos);
}

unsigned PermissionsOf(const std::string& path) {
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

TEST_CASE("a run directory and its folders are this user's alone, and a given one keeps its mode",
          "[cli][run_directory]") {
  const TempFolder scratch;
  const std::string fresh = scratch.path("fresh"), given = scratch.path("given");
  REQUIRE(mkdir(given.c_str(), 0755) == 0);
  for (const std::string& path : {fresh, given}) {
    REQUIRE(RunDirectory::Create(path, "job").ok());
    for (const char* folder : {"/logs", "/pids", "/snapshots"}) CHECK(PermissionsOf(path + folder) == 0700);
    REQUIRE(WritePid(path, "server-0", 7).ok());
    CHECK(PermissionsOf(path + "/pids/server-0") == 0600);
  }
  CHECK(PermissionsOf(fresh) == 0700);
  CHECK(PermissionsOf(given) == 0755);
}

TEST_CASE("a run directory whose run never committed a step can be used again", "[cli][run_directory]") {
  const TempFolder scratch;
  std::ofstream(scratch.path("metrics.jsonl")).flush();
  CHECK(RunDirectory::Create(scratch.path(), "job").ok());
}

// Returns the bytes of all files below a folder, by path; folders have none.
std::map<std::string, std::string> FilesIn(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    files[entry.path()] = entry.is_regular_file() ? std::string(std::istreambuf_iterator<char>(in), {}) : "";
  }
  return files;
}

constexpr char kJob[] =
    "[job]\nname = \"digits\"\nsteps = 5\nglobal_batch = 4\n[model]\nkind = \"mlp\"\nhidden = [4]\n[data]\nkind = "
    "\"synthetic\"\nsamples = 8\nfeatures = 2\nclasses = 2\n[optimizer]\nkind = \"sgd\"\nlr = 0.1\n";

server::JobRecord JobOf(const std::string& more) {
  return {JobId{1, 2}, PrintJobConfig(*ParseJobConfig("[job]\n" + more + (kJob + 6), "test"))};
}

// Makes the files that a job's start leaves if it fails before the coordinator writes to its log.
void LeaveStart(const TempFolder& folder) {
  REQUIRE(RunDirectory::Create(folder.path(), "job").ok());
  folder.Write("job.toml", PrintJobConfig(*ParseJobConfig(kJob, "test")));
}

void Log(const TempFolder& folder, const std::vector<server::LogRecord>& records) {
  std::filesystem::create_directories(folder.path("snapshots"));
  const auto log = server::FileCoordinatorLog::Open(folder.path("snapshots/coordinator.log"), 0).value();
  for (const server::LogRecord& record : records) REQUIRE(log->Append(record).ok());
}

TEST_CASE("another user's folder is no run directory", "[cli][run_directory]") {
  if (geteuid() != 0) return;  // only root can give a folder away
  const TempFolder scratch;
  LeaveStart(scratch);
  Log(scratch, {JobOf("")});
  REQUIRE(chown(scratch.path().c_str(), 12345, 12345) == 0);
  for (const Status& status :
       {RunDirectory::Create(scratch.path(), "job").status(), RunDirectory::Open(scratch.path()).status()}) {
    CHECK(status.code() == Code::kInvalid);
    CHECK(status.message().find("belongs to another user (12345)") != std::string::npos);
  }
}

struct InFolder {
  const char* what;
  std::function<void(const TempFolder&)> put;
  const char* said;  // empty: a job begins there
};

const std::vector<InFolder> kInFolder = {
    {"nothing", [](const TempFolder&) {}, ""},
    {"a start that failed", LeaveStart, ""},
    {"a start that failed, and its log",
     [](const TempFolder& folder) {
       LeaveStart(folder);
       Log(folder, {JobOf(""), server::TermRecord{{1}}, server::CatalogRecord{}});
     },
     ""},
    {"a start that failed, before its log's first line was whole",
     [](const TempFolder& folder) {
       LeaveStart(folder);
       folder.Write("snapshots/coordinator.log", "89888f22a0ef");
     },
     ""},
    {"an empty metrics.jsonl", [](const TempFolder& folder) { folder.Write("metrics.jsonl", ""); }, ""},
    {"folders of servers that were there first",
     [](const TempFolder& folder) { folder.Write("snapshots/shard-0/OWNER", ""); }, ""},
    {"steps", [](const TempFolder& folder) { folder.Write("metrics.jsonl", "{}\n"); }, "holds a run already (steps"},
    {"imported weights", [](const TempFolder& folder) { folder.Write("snapshots/imported", ""); },
     "holds a run already (imported weights"},
    {"final weights", [](const TempFolder& folder) { folder.Write("final.safetensors", "w"); },
     "holds a run already (weights"},
    {"a snapshot, and an empty metrics.jsonl",
     [](const TempFolder& folder) {
       LeaveStart(folder);
       folder.Write("metrics.jsonl", "");
       Log(folder, {JobOf(""), server::RecoverRecord{}, server::ManifestRecord{{{1}, {40}}, {}, {}, 0}});
     },
     "holds a run already (the snapshot of version 40, by snapshots/coordinator.log)"},
    {"a job that began, and no metrics.jsonl",
     [](const TempFolder& folder) {
       LeaveStart(folder);
       Log(folder, {JobOf(""), server::RecoverRecord{{3}, {}, {}, {}}});
     },
     "holds a run already (a job that began, in generation 3"},
    {"a log that is none", [](const TempFolder& folder) { folder.Write("snapshots/coordinator.log", "a diary\n"); },
     "its log cannot be read"},
    {"a damaged log",
     [](const TempFolder& folder) {
       Log(folder, {JobOf(""), server::TermRecord{{1}}, server::TermRecord{{2}}});
       std::fstream(folder.path("snapshots/coordinator.log")).seekp(100) << "\n";
     },
     "its log cannot be read"},
    {"somebody's folder snapshots", [](const TempFolder& folder) { folder.Write("snapshots/photo.jpg", "photo"); },
     "snapshots/photo.jpg is in the way"},
    {"somebody's folder shard-1", [](const TempFolder& folder) { folder.Write("snapshots/shard-1/a.txt", "a"); },
     "snapshots/shard-1 is in the way"},
    {"a folder with a name like a shard's",
     [](const TempFolder& folder) { folder.Write("snapshots/shard-old/OWNER", ""); },
     "snapshots/shard-old is in the way"},
    {"a file named snapshots", [](const TempFolder& folder) { folder.Write("snapshots", "s"); },
     "snapshots is in the way"},
    {"a link to somebody's folder",
     [](const TempFolder& folder) {
       folder.Write("elsewhere/photo.jpg", "photo");
       std::filesystem::create_directory_symlink(folder.path("elsewhere"), folder.path("snapshots"));
     },
     "snapshots/photo.jpg is in the way"},
    {"a link in the log's place",
     [](const TempFolder& folder) {
       folder.Write("elsewhere/coordinator.log", "");
       std::filesystem::create_directory(folder.path("snapshots"));
       std::filesystem::create_symlink(folder.path("elsewhere/coordinator.log"),
                                       folder.path("snapshots/coordinator.log"));
     },
     "snapshots/coordinator.log is in the way"},
    {"the user's own job file", [](const TempFolder& folder) { folder.Write("job.toml", kJob); },
     "job.toml is in the way"},
    {"the user's own job file, after a start that failed",
     [](const TempFolder& folder) {
       LeaveStart(folder);
       folder.Write("job.toml", std::string("# tuned by hand\n") + kJob);
     },
     "job.toml is in the way"},
    {"a folder in the job file's place, after a start that failed",
     [](const TempFolder& folder) {
       REQUIRE(RunDirectory::Create(folder.path(), "job").ok());
       std::filesystem::create_directory(folder.path("job.toml"));
     },
     "job.toml is in the way"},
    {"somebody's file endpoints.json", [](const TempFolder& folder) { folder.Write("endpoints.json", "{}"); },
     "endpoints.json is in the way"},
    {"somebody's file lock", [](const TempFolder& folder) { folder.Write("lock", "the key is under the mat"); },
     "lock is in the way"},
};

TEST_CASE("a job begins where nothing is lost, and elsewhere is refused and changes nothing", "[cli][run_directory]") {
  for (const InFolder& one : kInFolder) {
    INFO(one.what);
    const TempFolder folder;
    one.put(folder);
    std::map<std::string, std::string> before = FilesIn(folder.path());
    const Status status = RunDirectory::Create(folder.path(), "job").status();
    INFO(status.message());
    if (one.said[0] == '\0') {
      CHECK(status.ok());
      CHECK_FALSE(std::filesystem::exists(folder.path("snapshots/coordinator.log")));
      continue;
    }
    CHECK(status.code() == Code::kInvalid);
    CHECK(status.message().find(folder.path()) != std::string::npos);
    CHECK(status.message().find(one.said) != std::string::npos);
    CHECK(status.message().find("--run-dir") != std::string::npos);
    std::map<std::string, std::string> after = FilesIn(folder.path());
    for (auto* files : {&before, &after}) files->erase(folder.path("lock"));
    CHECK(after == before);
  }
}

TEST_CASE("a job that began is given up with its folder only where it has kept nothing", "[cli][run_directory]") {
  const TempFolder scratch;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  for (const bool durable : {false, true}) {
    const Result<RunDirectory> directory = RunDirectory::Create("", "job");
    REQUIRE(directory.ok());
    const auto log = server::FileCoordinatorLog::Open(directory->path() + "/snapshots/coordinator.log", 0).value();
    REQUIRE(log->Append(JobOf(durable ? "mode = \"async\"\nacknowledge = \"durable\"\n" : "")).ok());
    REQUIRE(log->Append(server::RecoverRecord{}).ok());
    CHECK(directory->Discard() == !durable);
    CHECK(std::filesystem::exists(directory->path()) == durable);
  }
  std::filesystem::current_path(before);
}

TEST_CASE("a run directory goes when it has a default name and no step", "[cli][run_directory]") {
  const TempFolder scratch;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  const Result<RunDirectory> fresh = RunDirectory::Create("", "job"), used = RunDirectory::Create("", "job"),
                             chosen = RunDirectory::Create("mine", "job");
  REQUIRE((fresh.ok() && used.ok() && chosen.ok()));
  std::ofstream(used->path() + "/metrics.jsonl") << "{}\n";
  CHECK(fresh->Discard());
  CHECK_FALSE(std::filesystem::exists(fresh->path()));
  CHECK_FALSE(used->Discard());
  CHECK(std::filesystem::exists(used->path()));
  CHECK_FALSE(chosen->Discard());
  CHECK(std::filesystem::exists(chosen->path()));
  std::filesystem::current_path(before);
}

TEST_CASE("jobs that start within one second get folders of their own", "[cli][run_directory]") {
  const TempFolder scratch;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  std::set<std::string> paths;
  for (int i = 0; i < 5; ++i) {  // each is released at once, as by a job that ended
    const Result<RunDirectory> directory = RunDirectory::Create("", "job");
    REQUIRE(directory.ok());
    CHECK(directory->path().starts_with("runs/job-"));
    paths.insert(directory->path());
  }
  CHECK(paths.size() == 5);
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace capstan::cli
