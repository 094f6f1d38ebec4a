#include "kernels/base/context.h"

#include <atomic>
#include <cstdint>
#include <vector>

#include "tests/catch.h"
#include "tests/common/base/flush_to_zero.h"

namespace capstan::kernels {
namespace {

TEST_CASE("every task of many parallel loops is called exactly once", "[kernels][context]") {
  for (const int threads : {1, 2, 5}) {
    CpuContext context(threads);
    REQUIRE(context.threads() == threads);
    int wrong = 0;
    for (int round = 0; round < 500; ++round) {
      const std::int64_t count = round % 17;
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
      std::atomic<int> bad_lanes{0};
      context.ParallelFor(count, [&](std::int64_t index, int lane) {
        ++calls[static_cast<std::size_t>(index)];
        if (lane < 0 || lane >= threads) ++bad_lanes;
      });
      for (const auto& call : calls) wrong += call != 1;
      wrong += bad_lanes;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("two tasks of one parallel loop never run on the same lane at once", "[kernels][context]") {
  CpuContext context(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<int> shared{0};
  for (int round = 0; round < 200; ++round) {
    context.ParallelFor(64, [&](std::int64_t, int lane) {
      if (++inside[static_cast<std::size_t>(lane)] != 1) ++shared;
      --inside[static_cast<std::size_t>(lane)];
    });
  }
  CHECK(shared == 0);
}

TEST_CASE("helpers compute normally, whatever the thread that made them does", "[kernels][context]") {
  std::atomic<int> helped{0}, normal{0};
  {
    const FlushToZero host;
    CpuContext context(2);
    context.ParallelFor(2, [&](std::int64_t, int lane) {
      if (lane == 0) return helped.wait(0);  // so that the helper takes one of the two
      normal = ComputesNormally() ? 1 : 0;
      helped = 1;
      helped.notify_all();
    });
  }
  CHECK(normal == 1);
}

TEST_CASE("a context that was never used ends", "[kernels][context]") {
  for (int round = 0; round < 100; ++round) CpuContext context(3);
  SUCCEED();
}

TEST_CASE("the workspace is aligned and keeps its place when it need not grow", "[kernels][context]") {
  CpuContext context(1);
  const auto* first = context.Workspace<float>(1000);
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
  CHECK(context.Workspace<float>(10) == first);
  double* larger = context.Workspace<double>(100000);
  CHECK(reinterpret_cast<std::uintptr_t>(larger) % 64 == 0);
  larger[99999] = 1;
}

}  // namespace
}  // namespace capstan::kernels
