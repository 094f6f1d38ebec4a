// Groups with a process per rank: the result of each call; and a process that is killed, after which the others end at
// their deadline and form the next generation's group.
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

// A rank of a group of three: reduces until a failure. Then reduces once more, as rank `left` of the next generation's
// group of two.
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

// Returns small whole numbers, whose sums are exact in any order.
std::vector<float> NumbersOf(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 11);
  }
  return values;
}

Status CheckCalls(HostGroup& group, std::size_t count) {
  std::vector<float> sum(count, 0.0F), of_all, data = NumbersOf(group.rank(), count);
  for (int rank = 0; rank < group.size(); ++rank) {
    const std::vector<float> one = NumbersOf(rank, count);
    of_all.insert(of_all.end(), one.begin(), one.end());
    for (std::size_t i = 0; i < count; ++i) sum[i] += one[i];
  }
  for (int root = 0; root < group.size(); ++root) {
    std::vector<float> all(root == group.rank() ? of_all.size() : 0);
    CAPSTAN_RETURN_IF_ERROR(group.Gather(data, root, all, Clock::now() + kPatience));
    if (root == group.rank() && all != of_all) return Corrupt("what was gathered is wrong");
  }
  CAPSTAN_RETURN_IF_ERROR(group.AllReduce(data, Clock::now() + kPatience));
  if (data != sum) return Corrupt("the sum of " + std::to_string(count) + " numbers is wrong");
  for (const int root : {-1, group.size()}) {
    const Status refused = group.Gather(data, root, {}, Clock::now() + kPatience);
    if (refused.code() != Code::kInvalid) return Corrupt("a gather at no rank: " + refused.ToString());
  }
  return {};
}

Status RunCalls(Channel& parent, int rank, int size) {
  setenv("CAPSTAN_EMULATED_NCCL", CAPSTAN_NCCL_STAND_IN, 1);
  TestDevice device;
  bench::PipeRendezvous rendezvous(&parent);
  CAPSTAN_ASSIGN_OR_RETURN(auto formed, CreateNcclGroup(device.context, {.rank = rank, .size = size}, &rendezvous,
                                                        Clock::now() + kPatience));
  HostGroup group(&device, std::move(formed));
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{17}, std::size_t{1001}, kCount}) {
    CAPSTAN_RETURN_IF_ERROR(CheckCalls(group, count));
  }
  return {};
}

TEST_CASE("processes get the sums and gathers of arrays of all sizes", "[process]") {
  const int size = GENERATE(range(1, 6));
  std::vector<ChildProcess> children;
  for (int rank = 0; rank < size; ++rank) {
    children.push_back(ChildProcess::Fork([rank, size](Channel& parent) {
      const Status status = RunCalls(parent, rank, size);
      parent.Send(status.ToString());
      return status;
    }));
  }
  REQUIRE(bench::Introduce(&children).ok());
  for (ChildProcess& child : children) CHECK(LineOf(child) == "ok");
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
