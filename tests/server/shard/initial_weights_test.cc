#include "server/shard/initial_weights.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/catch.h"

namespace capstan::server {
namespace {

std::vector<float> Make(std::uint64_t seed, const TensorSpec& tensor, std::uint64_t first, std::size_t count) {
  std::vector<float> out(count, 42.0F);
  FillInitialWeights(seed, tensor, first, out);
  return out;
}

TEST_CASE("initial weights do not depend on how a tensor is cut", "[server][init]") {
  for (InitKind kind : {InitKind::kZeros, InitKind::kOnes, InitKind::kNormal, InitKind::kUniform}) {
    const TensorSpec tensor{.name = "h.0.attn.w", .shape = {40, 25}, .init = {kind, 0.5F}};
    const std::vector<float> whole = Make(3, tensor, 0, 1000);
    for (std::size_t piece : {1U, 2U, 3U, 7U, 256U, 999U}) {
      std::vector<float> joined;
      for (std::size_t first = 0; first < whole.size(); first += piece) {
        const std::vector<float> part = Make(3, tensor, first, std::min(piece, whole.size() - first));
        joined.insert(joined.end(), part.begin(), part.end());
      }
      REQUIRE(joined == whole);
    }
  }
}

TEST_CASE("initial weights depend on the seed and on the tensor's name", "[server][init]") {
  const TensorSpec a{.name = "a", .shape = {100}, .init = {InitKind::kNormal, 1.0F}};
  TensorSpec b = a;
  b.name = "b";
  const std::vector<float> values = Make(1, a, 0, 100);
  REQUIRE(values == Make(1, a, 0, 100));
  REQUIRE(values != Make(2, a, 0, 100));
  REQUIRE(values != Make(1, b, 0, 100));
  b.name = "a";
  b.shape = {10, 10};
  REQUIRE(values == Make(1, b, 0, 100));
}

TEST_CASE("initial weights have the distribution that was asked for", "[server][init]") {
  constexpr std::size_t kElements = 100000;
  const auto mean_and_square = [](const std::vector<float>& values) {
    double sum = 0, squares = 0;
    for (float v : values) {
      sum += static_cast<double>(v);
      squares += static_cast<double>(v) * static_cast<double>(v);
    }
    return std::pair(sum / kElements, squares / kElements);
  };
  const auto [normal_mean, normal_square] =
      mean_and_square(Make(1, {.name = "n", .shape = {kElements}, .init = {InitKind::kNormal, 0.02F}}, 0, kElements));
  REQUIRE(std::abs(normal_mean) < 0.02 * 0.015);
  REQUIRE(normal_square == Approx(0.0004).epsilon(0.02));
  const std::vector<float> uniform =
      Make(1, {.name = "u", .shape = {kElements}, .init = {InitKind::kUniform, 3.0F}}, 0, kElements);
  const auto [uniform_mean, uniform_square] = mean_and_square(uniform);
  REQUIRE(std::abs(uniform_mean) < 0.03);
  REQUIRE(uniform_square == Approx(3.0).epsilon(0.02));
  for (float v : uniform) REQUIRE((v >= -3.0F && v < 3.0F));
  REQUIRE(Make(1, {.name = "z", .shape = {4}, .init = {InitKind::kZeros, 9.0F}}, 0, 4) == std::vector<float>(4, 0.0F));
  REQUIRE(Make(1, {.name = "o", .shape = {4}, .init = {InitKind::kOnes, 9.0F}}, 0, 4) == std::vector<float>(4, 1.0F));
}

}  // namespace
}  // namespace capstan::server
