// Tests of the emulated device itself: errors in kernels and launches must show.
#include "kernels/cuda/launch.h"
#include "tests/catch.h"
#include "tests/emulation/stream.h"
#include "tests/kernels/cuda/device.h"

namespace capstan::kernels {
namespace {

constexpr unsigned kThreads = 64;

// Each thread reads the number that another thread wrote, without a barrier between the write and the read.
__global__ void WithoutBarrier(int step, float* out) {
  __shared__ float numbers[kThreads];
  numbers[threadIdx.x] = static_cast<float>(threadIdx.x + 1);
  const unsigned neighbour = (threadIdx.x + static_cast<unsigned>(step)) % kThreads;
  out[blockIdx.x * kThreads + threadIdx.x] = numbers[neighbour];
  numbers[threadIdx.x] = 0;
}

TEST_CASE("a missing barrier shows, whichever neighbour is read", "[emulation]") {
  for (const int step : {1, static_cast<int>(kThreads) - 1}) {
    Device device;
    DeviceArray<float> out(device, 2 * kThreads);
    Launch(device.context(), WithoutBarrier, Grid{dim3(2), dim3(kThreads)}, step, out.get());
    int wrong = 0;
    const std::vector<float> result = out.Read();
    for (unsigned i = 0; i < result.size(); ++i) {
      const unsigned neighbour = (i % kThreads + static_cast<unsigned>(step)) % kThreads;
      wrong += result[i] != static_cast<float>(neighbour + 1);
    }
    CHECK(wrong > static_cast<int>(kThreads) / 2);
  }
}

TEST_CASE("an event that was recorded on two streams is done when its last record is", "[emulation]") {
  emulation::Event event;
  const std::uint32_t first = event.NewTicket(), second = event.NewTicket();
  event.Complete(second);
  event.Complete(first);
  CHECK(event.Is(second));
  event.Wait(event.newest());
}

TEST_CASE("a grid that no device would take is refused", "[emulation]") {
  Device device;
  DeviceArray<float> out(device, 1);
  Launch(device.context(), WithoutBarrier, Grid{dim3(1, 70000), dim3(kThreads)}, 1, out.get());
  CHECK(device.context().status().code() == Code::kUnreachable);
}

}  // namespace
}  // namespace capstan::kernels
