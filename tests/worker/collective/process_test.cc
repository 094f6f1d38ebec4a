// Groups of real processes: their reductions, and how they end when one process is killed or stopped.
#include <signal.h>
#include <unistd.h>

#include "bench/pipe_rendezvous.h"
#include "tests/catch.h"

#include "tests/patience.h"
#include "tests/worker/collective/groups.h"
#include "worker/collective/group.h"

namespace capstan::collective {
namespace {

using bench::Channel;
using bench::ChildProcess;
using Catch::Matchers::Contains;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLongerThanTheTestWaits = std::chrono::minutes(10);
constexpr std::size_t kFew = 1u << 12, kMany = 1u << 23;  // kMany: the signal meets a message in flight

// One rank's process: reduces until a failure. Its first message to the parent is its process id. Its last one is how
// long the last call took, in milliseconds, and the status of that call.
Status RunRank(Channel& parent, CreateMesh create, int rank, int ranks, std::size_t count, milliseconds time,
               milliseconds silence) {
  signal(SIGPIPE, SIG_IGN);
  bench::PipeRendezvous rendezvous(&parent);
  MeshOptions options{rank, ranks, "127.0.0.1", [](int r) { return "w-" + std::to_string(r); }, silence};
  options.answer *= testing::Patience();
  options.failure_send *= testing::Patience();
  CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<Mesh> mesh, create(options, &rendezvous, Clock::now() + kPatience));
  const std::unique_ptr<Group> group = CreateGroup(std::move(mesh), {.chunk_bytes = kMany});
  std::vector<float> data(count, 1.0F);
  CAPSTAN_RETURN_IF_ERROR(group->AllReduce(data, Clock::now() + kPatience));
  if (data != std::vector<float>(count, static_cast<float>(ranks))) return Corrupt("the sum is wrong");
  parent.Send(std::to_string(getpid()));
  for (;;) {
    const Clock::time_point before = Clock::now();
    const Status status = group->AllReduce(data, before + time);
    if (status.ok()) continue;
    const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - before).count();
    parent.Send(std::to_string(took) + " " + status.ToString());
    return {};
  }
}

// A kind of mesh between processes.
std::string AnyKind() { return GENERATE(from_range(std::vector(kKinds.begin() + 1, kKinds.end()))); }

struct End {
  long took = 0;  // in milliseconds
  std::string status;
};

// Returns the reports of all ranks except the second, to which the signal `sent` is sent. A call has `time` to finish.
std::vector<End> EndsWhenOneGets(const std::string& kind, int sent, int ranks, std::size_t count, milliseconds time,
                                 milliseconds silence = kLongerThanTheTestWaits) {
  std::vector<ChildProcess> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(ChildProcess::Fork(
        [=](Channel& parent) { return RunRank(parent, MakerOf(kind), rank, ranks, count, time, silence); }));
  }
  REQUIRE(bench::Introduce(&children).ok());
  std::vector<pid_t> processes;
  for (ChildProcess& child : children) {
    const Result<std::string> line = child.channel().Receive();
    REQUIRE(line.ok());
    processes.push_back(std::stoi(*line));
  }
  REQUIRE(kill(processes[1], sent) == 0);
  std::vector<End> ends;
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    if (rank == 1) continue;
    const Result<std::string> line = children[rank].channel().Receive();
    REQUIRE(line.ok());
    ends.push_back({std::stol(*line), line->substr(line->find(' ') + 1)});
  }
  return ends;
}

TEST_CASE("when a process is killed, the calls of all others end long before their deadline and name it",
          "[collective][process]") {
  for (const End& end : EndsWhenOneGets(AnyKind(), SIGKILL, GENERATE(2, 4), kMany, kLongerThanTheTestWaits)) {
    INFO(end.status << " after " << end.took << " ms");
    CHECK_THAT(end.status, Contains("the connection broke to rank 1 (w-1);"));
  }
}

TEST_CASE("when a process is stopped, the calls of all others end at their deadline and name it",
          "[collective][process]") {
  for (const End& end : EndsWhenOneGets(AnyKind(), SIGSTOP, 4, kFew, milliseconds(2500) * testing::Patience())) {
    INFO(end.status << " after " << end.took << " ms");
    CHECK_THAT(end.status, Contains("missing in it: rank 1 (w-1);"));
  }
}

TEST_CASE("a process that does not answer any more is found missing long before a deadline, and named",
          "[collective][process]") {
  for (const End& end : EndsWhenOneGets(AnyKind(), SIGSTOP, GENERATE(2, 4), GENERATE(kFew, kMany),
                                        kLongerThanTheTestWaits, milliseconds(1500) * testing::Patience())) {
    INFO(end.status << " after " << end.took << " ms");
    CHECK_THAT(end.status, Contains("no answer comes any more from rank 1 (w-1);"));
  }
}

}  // namespace
}  // namespace capstan::collective
