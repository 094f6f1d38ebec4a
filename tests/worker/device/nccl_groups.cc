// Groups on emulated devices through the stand-in for NCCL: one process per rank, forked again for each Run.
#include "bench/pipe_rendezvous.h"
#include "tests/worker/collective/groups.h"
#include "tests/worker/device/host_group.h"

namespace capstan::collective {
namespace {

Status RunRank(bench::Channel& parent, int rank, int size, const std::function<Status(Group&)>& body) {
  setenv("CAPSTAN_EMULATED_NCCL", CAPSTAN_NCCL_STAND_IN, 1);
  train::TestDevice device;
  bench::PipeRendezvous rendezvous(&parent);
  const DeviceGroupOptions options{.rank = rank, .size = size, .name_of = NameOfTestRank};
  CAPSTAN_ASSIGN_OR_RETURN(auto group, train::CreateNcclGroup(device.context, options, &rendezvous, In(kPatience)));
  train::HostGroup on_host(&device, std::move(group));
  return body(on_host);
}

}  // namespace

const std::vector<std::string> kKinds = {"nccl"};

Groups::Groups(const std::string&, int size, const GroupOptions&) : size_(size) {}

std::vector<Status> Groups::Run(const std::function<Status(Group&)>& body) {
  std::vector<bench::ChildProcess> children;
  for (int rank = 0; rank < size_; ++rank) {
    children.push_back(bench::ChildProcess::Fork([&, rank](bench::Channel& parent) {
      const Status status = RunRank(parent, rank, size_, body);
      parent.Send(std::to_string(static_cast<int>(status.code())) + " " + status.message());
      return status;
    }));
  }
  REQUIRE(bench::Introduce(&children).ok());
  std::vector<Status> statuses;
  for (bench::ChildProcess& child : children) {
    const Result<std::string> line = child.channel().Receive();
    REQUIRE(line.ok());
    statuses.emplace_back(static_cast<Code>(std::stoi(*line)), line->substr(line->find(' ') + 1));
  }
  return statuses;
}

}  // namespace capstan::collective
