// A process of a group is killed: the others end at their deadline, and form the next generation's group.
#include <signal.h>
#include <unistd.h>

#include "bench/pipe_rendezvous.h"
#include "tests/catch.h"
#include "tests/worker/device/host_group.h"

namespace capstan::train {
namespace {

using bench::Channel;
using bench::ChildProcess;
using Catch::Matchers::Contains;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kPatience{60};
constexpr std::size_t kCount = 100000;

Status CheckSum(HostGroup& group, milliseconds patience) {
  std::vector<float> data(kCount, 1.0F);
  CAPSTAN_RETURN_IF_ERROR(group.AllReduce(data, Clock::now() + patience));
  return data == std::vector<float>(kCount, static_cast<float>(group.size())) ? Status() : Corrupt("the sum is wrong");
}

// Reduces until a failure, and then again as rank `left` of the next generation's group of two.
Status RunProcess(Channel& parent, int rank, int left) {
  setenv("CAPSTAN_EMULATED_NCCL", CAPSTAN_NCCL_STAND_IN, 1);
  TestDevice device;
  bench::PipeRendezvous rendezvous(&parent);
  const auto form = [&](int as, int size, std::uint64_t generation) {
    return CreateNcclGroup(device.context, {.rank = as, .size = size, .generation = generation}, &rendezvous,
                           Clock::now() + kPatience);
  };
  {
    CAPSTAN_ASSIGN_OR_RETURN(auto formed, form(rank, 3, 1));
    HostGroup group(&device, std::move(formed));
    CAPSTAN_RETURN_IF_ERROR(CheckSum(group, kPatience));
    parent.Send(std::to_string(getpid()));
    Status end;
    while (end.ok()) end = CheckSum(group, milliseconds(1000));
    parent.Send(end.ToString());
  }
  CAPSTAN_ASSIGN_OR_RETURN(auto formed, form(left, 2, 2));
  HostGroup group(&device, std::move(formed));
  parent.Send(CheckSum(group, kPatience).ToString());
  return {};
}

std::string LineOf(ChildProcess& child) {
  Result<std::string> line = child.channel().Receive();
  return line.ok() ? *line : line.status().ToString();
}

TEST_CASE("when a process is killed the others end at their deadline, and form a group without it", "[process]") {
  std::vector<ChildProcess> children, left;
  for (int rank = 0; rank < 3; ++rank) {
    children.push_back(ChildProcess::Fork([rank](Channel& parent) { return RunProcess(parent, rank, rank / 2); }));
  }
  REQUIRE(bench::Introduce(&children).ok());
  std::vector<pid_t> processes;
  for (ChildProcess& child : children) processes.push_back(std::stoi(LineOf(child)));
  REQUIRE(kill(processes[1], SIGKILL) == 0);
  for (const std::size_t rank : {0u, 2u}) left.push_back(std::move(children[rank]));
  for (ChildProcess& child : left) CHECK_THAT(LineOf(child), Contains("timeout") && Contains("rank 1"));
  REQUIRE(bench::Introduce(&left).ok());
  for (ChildProcess& child : left) CHECK(LineOf(child) == "ok");
}

}  // namespace
}  // namespace capstan::train
