// Tests of the folder in which a job's processes have their sockets.
#include "cli/run/job_sockets.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "common/base/process_address.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using testing::TempFolder;

// Sets TMPDIR as long as it lives.
class TemporaryFolderOf {
 public:
  explicit TemporaryFolderOf(const std::string& folder) {
    if (const char* const before = getenv("TMPDIR"); before != nullptr) before_ = before;
    setenv("TMPDIR", folder.c_str(), 1);
  }
  ~TemporaryFolderOf() { before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1); }
  TemporaryFolderOf(const TemporaryFolderOf&) = delete;
  TemporaryFolderOf& operator=(const TemporaryFolderOf&) = delete;

 private:
  std::string before_;
};

mode_t ModeOf(const std::string& path) {
  struct stat found {};
  REQUIRE(stat(path.c_str(), &found) == 0);
  return found.st_mode & 07777;
}

std::string FolderOf(const JobSockets& sockets) { return fs::path(SocketPathOf(sockets.coordinator())).parent_path(); }

// Makes a socket that no process listens at, as a killed process leaves one.
void LeaveSocket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  close(left);
}

TEST_CASE("a job has its sockets in a closed folder of its run directory, the same one each time", "[cli][sockets]") {
  const TempFolder run;
  const Result<JobSockets> sockets = JobSockets::Make(run.path());
  INFO(sockets.status().message());
  REQUIRE(sockets.ok());
  const std::string folder = fs::canonical(run.path("sockets"));
  CHECK(sockets->coordinator() == LocalAddress(folder, "coordinator"));
  CHECK(sockets->shard(12) == LocalAddress(folder, "shard-12"));
  CHECK(ModeOf(folder) == 0700);
  CHECK(fs::is_empty(folder));
  CHECK(JobSockets::Of(sockets->coordinator()).shard(3) == sockets->shard(3));
  CHECK(JobSockets::Make(run.path())->coordinator() == sockets->coordinator());
}

TEST_CASE("a run directory with a long path has its sockets in the temporary folder", "[cli][sockets]") {
  const TempFolder scratch;
  const TemporaryFolderOf temporary(scratch.path());
  const std::string run = scratch.path(std::string(120, 'r')), other = scratch.path(std::string(120, 's'));
  fs::create_directory(run);
  fs::create_directory(other);
  const Result<JobSockets> sockets = JobSockets::Make(run);
  INFO(sockets.status().message());
  REQUIRE(sockets.ok());
  const std::string own = fs::canonical(scratch.path("capstan-" + std::to_string(geteuid())));
  CHECK(fs::path(FolderOf(*sockets)).parent_path() == own);
  CHECK(ModeOf(own) == 0700);
  CHECK(FolderOf(*JobSockets::Make(run)) == FolderOf(*sockets));
  CHECK(FolderOf(*JobSockets::Make(other)) != FolderOf(*sockets));
  CHECK_FALSE(fs::exists(run + "/sockets"));

  sockets->Remove();
  CHECK_FALSE(fs::exists(FolderOf(*sockets)));
  CHECK(fs::exists(own));  // so that no other user makes one of its name
}

TEST_CASE("a run directory that others can replace has its sockets elsewhere", "[cli][sockets]") {
  const TempFolder scratch;
  const TemporaryFolderOf temporary(scratch.path());
  const std::string run = scratch.path("run");
  fs::create_directory(run);
  REQUIRE(chmod(run.c_str(), 0777) == 0);
  const Result<JobSockets> sockets = JobSockets::Make(run);
  REQUIRE(sockets.ok());
  CHECK_THAT(FolderOf(*sockets), Contains("/capstan-" + std::to_string(geteuid()) + "/run-"));

  REQUIRE(chmod(scratch.path().c_str(), 0777) == 0);  // now the temporary folder is no better
  const Status none = JobSockets::Make(run).status();
  CHECK(none.code() == Code::kInvalid);
  CHECK_THAT(none.message(), Contains("no folder for the job's sockets") && Contains("--run-dir"));
}

TEST_CASE("the sockets of killed processes are removed, and no file of the user's", "[cli][sockets]") {
  const TempFolder run;
  const JobSockets sockets = JobSockets::Make(run.path()).value();
  for (const std::string& address : {sockets.coordinator(), sockets.shard(0)}) LeaveSocket(SocketPathOf(address));
  const std::string note = run.Write("sockets/shard-notes", "mine");
  sockets.Remove();
  CHECK(fs::exists(note));
  fs::remove(note);
  sockets.Remove();
  CHECK_FALSE(fs::exists(run.path("sockets")));
}

}  // namespace
}  // namespace capstan::cli
