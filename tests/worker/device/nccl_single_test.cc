// A group of one rank, on the emulated device and on a real one. With one device no more of NCCL can be tested.
#include <cstdlib>
#include <string_view>

#include "tests/catch.h"
#include "tests/compared_with_nothing.h"
#include "tests/worker/device/host_group.h"

namespace capstan::train {
namespace {

using collective::Deadline;
using Floats = std::vector<float>;

// A machine with a real device need not have NCCL. The emulated device always has the stand-in.
constexpr bool kMayLackNccl = std::string_view(CAPSTAN_NCCL_STAND_IN).empty();

Deadline Soon() { return std::chrono::steady_clock::now() + std::chrono::minutes(1); }

TEST_CASE("a group of one rank keeps what it has, in every call, and can be formed again", "[nccl]") {
  setenv("CAPSTAN_EMULATED_NCCL", CAPSTAN_NCCL_STAND_IN, 1);
  TestDevice device;
  for (std::uint64_t generation = 1; generation <= 2; ++generation) {
    collective::InProcessRendezvous rendezvous(1);
    const collective::DeviceGroupOptions options{
        .generation = generation, .libraries = {.toolkit = "/usr/local/cuda", .path = "/usr/bin:/usr/local/bin"}};
    auto group = CreateNcclGroup(device.context, options, &rendezvous, Soon());
    if (kMayLackNccl && group.status().code() == Code::kUnsupported) {
      return testing::ComparedWithNothing("a group of one rank on this device", group.status().message());
    }
    INFO(group.status().ToString());
    REQUIRE(group.ok());
    HostGroup on_host(&device, std::move(*group));
    Floats data = {1.5F, -2.0F, 3.25F}, all(3);
    const Floats kept = data;
    CHECK(on_host.AllReduce(data, Soon()).ToString() == Status().ToString());
    CHECK(on_host.Gather(data, 0, all, Soon()).ok());
    CHECK(data == kept);
    CHECK(all == kept);
    on_host.Abort();
    CHECK(on_host.AllReduce(data, Soon()).code() == Code::kUnreachable);
  }
}

}  // namespace
}  // namespace capstan::train
