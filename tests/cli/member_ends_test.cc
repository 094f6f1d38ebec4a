#include "cli/launch/member_ends.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using std::chrono::steady_clock;
using testing::TempFolder;

struct Nowhere {
  ~Nowhere() { close(fd); }
  const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
};

// A job whose workers are shell scripts. It never does a step.
struct MembersOfJob {
  explicit MembersOfJob(std::uint64_t steps = 100) : progress(folder.path("metrics.jsonl"), steps) {}

  Member& Add(const std::string& name, const std::string& script, std::uint32_t max_restarts) {
    Member member({name, "/bin/sh", {"-c", script}, folder.path(name + ".log"), ProgramKind::kOwn, {}}, max_restarts);
    REQUIRE(member.Start(0).ok());
    members.Add(std::move(member));
    Member* added = nullptr;
    for (Member& one : members) added = &one;
    return *added;
  }
  // Waits for the end of the member's process, and returns the job's failure if that causes one.
  Status End(Member* member) {
    while (!member->process().Reap()) poll(nullptr, 0, 1);
    return ends.See(member, steady_clock::now());
  }

  const TempFolder folder;
  const Nowhere nowhere;
  const LimitsSection limits;
  Screen screen{{}, nowhere.fd};
  Progress progress;
  MemberList members;
  SilenceWatch silence{limits, &screen};
  MemberEnds ends{&members, &progress, &silence, &screen};
};

TEST_CASE("a program that fails again and again before a step fails the job", "[cli][launch]") {
  MembersOfJob job;
  Member& worker = job.Add("worker-0", "echo oh no; exit 3", 30);
  for (int i = 1; i < MemberEnds::kFailuresMax; ++i) {
    CHECK(job.End(&worker).ok());
    REQUIRE(worker.restarts());
    CHECK(!worker.ended());
    REQUIRE(worker.Start(0).ok());
  }
  const Status failure = job.End(&worker);
  CHECK(failure.code() == Code::kUnreachable);
  CHECK(failure.message().find("worker-0 exited with code 3, 3 times in a row") == 0);
  CHECK(worker.ended());
}

TEST_CASE("a program that is killed more often than it may be restarted fails the job", "[cli][launch]") {
  MembersOfJob job;
  Member& worker = job.Add("worker-0", "kill -9 $$", 1);
  CHECK(job.End(&worker).ok());
  REQUIRE(worker.Start(0).ok());
  CHECK(job.End(&worker).message().find(" after 1 restarts within an hour") != std::string::npos);
}

TEST_CASE("a job stops once all of its programs have ended well before the job's last step", "[cli][launch]") {
  MembersOfJob job;
  Member& first = job.Add("worker-0", "exit 0", 30);
  Member& second = job.Add("worker-1", "exit 0", 30);
  CHECK(job.End(&first).ok());
  CHECK(!first.restarts());
  CHECK(!job.ends.nobody_left());  // the end of the second has not been seen
  CHECK(job.End(&second).ok());
  CHECK(job.ends.nobody_left());
  CHECK(job.ends.why_nobody().empty());
  CHECK_FALSE(job.ends.loops_ended());
}

TEST_CASE("a job without a last step is done once all of its programs have ended well", "[cli][launch]") {
  MembersOfJob job(kOpenEndedSteps);
  Member& first = job.Add("worker-0", "exit 0", 30);
  Member& second = job.Add("worker-1", "exit 0", 30);
  CHECK(job.End(&first).ok());
  CHECK_FALSE(job.ends.loops_ended());
  CHECK(job.End(&second).ok());
  CHECK(job.ends.loops_ended());
  CHECK(job.ends.nobody_left());
}

}  // namespace
}  // namespace capstan::cli
