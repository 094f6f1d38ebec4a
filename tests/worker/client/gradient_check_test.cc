#include "worker/client/gradient_check.h"

#include <cstddef>
#include <limits>
#include <vector>

#include "common/base/hash.h"
#include "tests/catch.h"

namespace capstan::client {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity(), kNoNumber = std::numeric_limits<float>::quiet_NaN(),
                kLargest = std::numeric_limits<float>::max();

std::vector<float> Gradient(std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = i % 2 == 0 ? static_cast<float>(i) : -kLargest;
  return values;
}

TEST_CASE("the hash of a finite gradient is the hash of its bytes", "[gradient-check]") {
  for (const std::size_t size : {0, 1, 15, 1023, 1024, 1025, 2048, 5000}) {
    const std::vector<float> values = Gradient(size);
    CHECK(AllFinite(values));
    CHECK(HashIfFinite(values) == Hash64(std::as_bytes(std::span(values))));
  }
}

TEST_CASE("a gradient with one value that is not finite has no hash, wherever the value is", "[gradient-check]") {
  for (const std::size_t size : {1, 1024, 1025, 5000}) {
    for (const std::size_t place : {std::size_t{0}, size / 2, size - 1}) {
      for (const float bad : {kInfinite, -kInfinite, kNoNumber, -kNoNumber}) {
        std::vector<float> values = Gradient(size);
        values[place] = bad;
        CHECK_FALSE(AllFinite(values));
        CHECK_FALSE(HashIfFinite(values).has_value());
      }
    }
  }
}

}  // namespace
}  // namespace capstan::client
