// Reductions of the values of several ranks: formulas, their order, types, NaN, and memory that is not aligned.
#include "worker/client/reduce_values.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "common/data/number16.h"
#include "tests/catch.h"

namespace capstan::client {
namespace {

// Reduces the values of some ranks, which lie at odd addresses.
template <class T>
std::vector<T> Reduced(NumberType type, Reduction reduction, const std::vector<std::vector<T>>& ranks) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<Slice> parts;
  const std::size_t bytes = ranks[0].size() * sizeof(T);
  for (const std::vector<T>& values : ranks) {
    memory.emplace_back(bytes + 1);
    std::memcpy(memory.back().data() + 1, values.data(), bytes);
  }
  for (const std::vector<std::byte>& one : memory) parts.push_back({{}, one.data() + 1, bytes});
  std::vector<std::byte> result(bytes + 1);
  ReduceValues(parts, type, reduction, result.data() + 1, bytes);
  std::vector<T> values(ranks[0].size());
  std::memcpy(values.data(), result.data() + 1, bytes);
  return values;
}

TEST_CASE("values are added in the order of the ranks", "[client][team]") {
  const std::vector<std::vector<float>> ranks = {{1e8F, 1.0F}, {1.0F, 2.0F}, {-1e8F, 3.0F}};
  CHECK(Reduced(NumberType::kFloat32, Reduction::kSum, ranks) == std::vector<float>{(1e8F + 1.0F) + -1e8F, 6.0F});
  CHECK(Reduced(NumberType::kFloat32, Reduction::kMean, ranks) == std::vector<float>{0.0F, 2.0F});
  CHECK(Reduced(NumberType::kFloat32, Reduction::kProduct, ranks)[1] == 6.0F);
  CHECK(Reduced(NumberType::kFloat32, Reduction::kMin, ranks) == std::vector<float>{-1e8F, 1.0F});
  CHECK(Reduced(NumberType::kFloat32, Reduction::kMax, ranks) == std::vector<float>{1e8F, 3.0F});
  CHECK(Reduced<double>(NumberType::kFloat64, Reduction::kSum, {{0.1}, {0.2}, {0.3}})[0] == (0.1 + 0.2) + 0.3);
}

TEST_CASE("a NaN of any rank is the minimum and the maximum", "[client][team]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Reduction reduction : {Reduction::kMin, Reduction::kMax}) {
    CHECK(std::isnan(Reduced<float>(NumberType::kFloat32, reduction, {{nan}, {1.0F}})[0]));
    CHECK(std::isnan(Reduced<float>(NumberType::kFloat32, reduction, {{1.0F}, {nan}})[0]));
    CHECK(std::isnan(Reduced<float>(NumberType::kFloat32, reduction, {{1.0F}, {nan}, {2.0F}})[0]));
  }
}

TEST_CASE("integers are exact, signed and wrap around", "[client][team]") {
  CHECK(Reduced<std::int32_t>(NumberType::kInt32, Reduction::kSum, {{-5, 2147483647}, {3, 1}}) ==
        std::vector<std::int32_t>{-2, std::numeric_limits<std::int32_t>::min()});
  CHECK(Reduced<std::int64_t>(NumberType::kInt64, Reduction::kMin, {{-5}, {3}})[0] == -5);
  CHECK(Reduced<std::int64_t>(NumberType::kInt64, Reduction::kMax, {{-5}, {3}})[0] == 3);
  CHECK(Reduced<std::uint8_t>(NumberType::kUint8, Reduction::kSum, {{200}, {100}})[0] == 44);
  CHECK(Reduced<std::uint8_t>(NumberType::kUint8, Reduction::kProduct, {{20}, {3}})[0] == 60);
}

TEST_CASE("16-bit numbers are added as float32 and rounded once", "[client][team]") {
  const auto half = [](float x) { return Narrow<Half>(x).bits; };
  // In 16 bits 2048 + 1 would be 2048, twice.
  CHECK(Reduced<std::uint16_t>(NumberType::kFloat16, Reduction::kSum, {{half(2048)}, {half(1)}, {half(1)}})[0] ==
        half(2050));
  const auto brain = [](float x) { return Narrow<Bf16>(x).bits; };
  CHECK(Reduced<std::uint16_t>(NumberType::kBfloat16, Reduction::kSum, {{brain(256)}, {brain(1)}, {brain(1)}})[0] ==
        brain(258));
}

TEST_CASE("more numbers than a tile are all reduced", "[client][team]") {
  std::vector<float> first(5000), second(5000), sum(5000);
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i] = static_cast<float>(i);
    second[i] = 0.5F;
    sum[i] = first[i] + 0.5F;
  }
  CHECK(Reduced<float>(NumberType::kFloat32, Reduction::kSum, {first, second}) == sum);
}

}  // namespace
}  // namespace capstan::client
