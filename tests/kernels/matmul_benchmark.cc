// Prints the speed of products on one thread, in 16 bits next to fp32. Run it with: kernels_test "[.benchmark]".
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "kernels/matmul.h"
#include "tests/catch.h"
#include "tests/kernels/numbers.h"

namespace capstan::kernels {
namespace {

struct Size {
  std::int64_t m, n, k;
};

// Returns the speed of the best of several runs, in 1e9 operations a second.
template <class T>
double GigaFlops(Size s) {
  CpuContext context(1);
  const auto a = RandomNumbers<T>(s.m * s.k, 1), b = RandomNumbers<T>(s.n * s.k, 2);
  std::vector<T> c(static_cast<std::size_t>(s.m * s.n));
  double best = 0;
  for (int run = 0; run < 5; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    Matmul(context, Product<T>{.m = s.m,
                               .n = s.n,
                               .k = s.k,
                               .a = {a.data(), s.k},
                               .b = {b.data(), s.k, Transpose::kYes},
                               .c = c.data(),
                               .c_stride = s.n});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, 2e-9 * static_cast<double>(s.m * s.n * s.k) / seconds);
  }
  return best;
}

TEST_CASE("products in fp32, bf16 and fp16 on one thread", "[.benchmark]") {
  std::printf("%-18s %6s %6s %6s %13s   GFLOP/s, %s\n", "m x n x k", "fp32", "bf16", "fp16", "bf16 to fp32",
              MatmulDispatchName().c_str());
  for (const Size s : {Size{2048, 2048, 2048}, {4096, 768, 768}, {4096, 3072, 768}, {4096, 768, 3072}}) {
    const double wide = GigaFlops<float>(s), bf16 = GigaFlops<Bf16>(s), half = GigaFlops<Half>(s);
    std::printf("%4ld x %4ld x %4ld %6.0f %6.0f %6.0f %13.2f\n", s.m, s.n, s.k, wide, bf16, half, bf16 / wide);
    CHECK(bf16 > 0);
  }
}

}  // namespace
}  // namespace capstan::kernels
