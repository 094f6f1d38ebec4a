#include "cli/launch/member_ends.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

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
  Member& Add(const std::string& name, const std::string& script, std::uint32_t max_restarts) {
    Member member({name, "/bin/sh", {"-c", script}, folder.path(name + ".log"), ProgramKind::kOwn, {}}, max_restarts);
    REQUIRE(member.Start(0).ok());
    members.Add(std::move(member));
    Member* added = nullptr;
    for (Member& one : members) added = &one;
    return *added;
  }
  // Adds a worker of capstan's own, which runs the script.
  Member& AddOurs(const std::string& name, const std::string& script) {
    const std::string path = folder.path("capstan-worker");
    std::ofstream(path) << "#!/bin/sh\neval \"$1\"\n";
    REQUIRE(chmod(path.c_str(), 0700) == 0);
    Member member({name, path, {script}, folder.path(name + ".log"), ProgramKind::kOurs, {}}, 30);
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
  Progress progress{folder.path("metrics.jsonl"), 100};
  MemberList members;
  SilenceWatch silence{limits, &screen};
  MemberEnds ends{&members, &progress, &silence, &screen, 1};
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

TEST_CASE("a worker of capstan's that fails before any has joined fails the job at once, in its own words",
          "[cli][launch]") {
  MembersOfJob job;
  Member& worker = job.AddOurs("worker-0", "exit 1");
  worker.NoteFailure("there is no data");
  CHECK(job.End(&worker).message() == "worker-0: there is no data");
}

TEST_CASE("a worker of capstan's that fails alone is started again, and set aside by name if it fails on",
          "[cli][launch]") {
  MembersOfJob job;
  Member& sound = job.AddOurs("worker-0", "sleep 600");
  sound.NoteJoined();
  Member& worker = job.AddOurs("worker-1", "exit 1");
  for (int i = 1; i < MemberEnds::kFailuresMax; ++i) {
    worker.NoteFailure("refused");
    CHECK(job.End(&worker).ok());
    REQUIRE(worker.restarts());
    REQUIRE(worker.Start(0).ok());
  }
  worker.NoteFailure("refused");
  CHECK(job.End(&worker).ok());
  CHECK(!worker.restarts());
  CHECK(!job.ends.nobody_left());
  sound.process().Signal(SIGTERM);
  CHECK(job.End(&sound).ok());
}

TEST_CASE("the coordinator's word that a program was refused counts only if the program fails", "[cli][launch]") {
  MembersOfJob job;
  const auto now = steady_clock::now();
  Member& living = job.Add("worker-0", "sleep 600", 30);
  living.NoteRefused(now);
  CHECK(MemberEnds::SeeRefused(living, now).ok());
  living.process().Signal(SIGKILL);
  CHECK(job.End(&living).ok());
  CHECK(living.restarts());
  Member& failed = job.Add("worker-1", "exit 1", 30);
  failed.NoteRefused(now - Member::kRefusedWithin);
  CHECK(job.End(&failed).ok());
  REQUIRE(failed.Start(0).ok());
  failed.NoteRefused(now);
  CHECK(job.End(&failed).message().find("was refused, and would be again") != std::string::npos);
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
}

}  // namespace
}  // namespace capstan::cli
