#include "kernels/random_fill.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "kernels/philox_batch.h"
#include "tests/catch.h"

namespace capstan::kernels {
namespace {

TEST_CASE("a run of random numbers holds the numbers of the single calls", "[kernels][random]") {
  const std::uint64_t key = 0x123456789abcdef0, first = (std::uint64_t{1} << 34) - 64;  // the counter crosses 32 bits
  std::vector<std::uint32_t> words(4 * kPhiloxGroup);
  PhiloxFill(key, first, 4 * kPhiloxGroup, words.data());
  int different = 0;
  for (std::size_t i = 0; i < words.size(); ++i) different += words[i] != Philox(key, (first + i) / 4, 0)[i % 4];
  CHECK(different == 0);
}

TEST_CASE("an initial value depends on key and element alone", "[kernels][random]") {
  for (const auto fill : {FillNormal, FillUniform}) {
    std::vector<float> whole(1000);
    fill(7, 5, 0.5F, whole);
    for (const std::size_t cut : {1U, 3U, 63U, 64U, 65U, 500U}) {
      std::vector<float> parts(whole.size(), NAN);
      fill(7, 5, 0.5F, std::span(parts).first(cut));
      fill(7, 5 + cut, 0.5F, std::span(parts).subspan(cut));
      CHECK(parts == whole);
    }
    std::vector<float> other(whole.size());
    fill(8, 5, 0.5F, other);
    CHECK(other != whole);
  }
}

TEST_CASE("normal numbers have the moments of a normal distribution", "[kernels][random]") {
  std::vector<float> values(1 << 20);
  FillNormal(1, 0, 2.0F, values);
  double mean = 0, square = 0, fourth = 0, neighbour = 0;
  int beyond_two_sigma = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double v = static_cast<double>(values[i]) / 2;
    mean += v;
    square += v * v;
    fourth += v * v * v * v;
    if (i > 0) neighbour += v * static_cast<double>(values[i - 1]) / 2;
    beyond_two_sigma += std::fabs(v) > 2;
  }
  const double n = static_cast<double>(values.size());
  CHECK(std::fabs(mean / n) < 0.005);
  CHECK(std::fabs(square / n - 1) < 0.01);
  CHECK(std::fabs(fourth / n - 3) < 0.05);
  CHECK(std::fabs(neighbour / n) < 0.005);
  CHECK(std::fabs(beyond_two_sigma / n - 0.0455) < 0.001);
}

TEST_CASE("uniform numbers fill their range evenly", "[kernels][random]") {
  std::vector<float> values(1 << 18);
  FillUniform(1, 0, 3.0F, values);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  CHECK(*low >= -3.0F);
  CHECK(*high < 3.0F);
  int counts[10] = {};
  for (const float v : values) ++counts[std::min(9, static_cast<int>((v + 3.0F) / 0.6F))];
  for (const int count : counts) CHECK(std::abs(count - 26214) < 800);
}

}  // namespace
}  // namespace capstan::kernels
