#include "common/base/running_minimum.h"

#include "tests/catch.h"

namespace capstan {
namespace {

TEST_CASE("a running minimum is the least of its numbers, whichever rise and fall", "[server]") {
  CHECK(RunningMinimum().least() == RunningMinimum::kNone);
  std::vector<SequenceNumber> values(5, SequenceNumber{3});
  RunningMinimum minimum(values);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const std::size_t index = i * 7 % values.size();
    values[index].value = i % 11 == 0 ? i % 3 : values[index].value + i % 2;
    minimum.Set(index, values[index]);
    REQUIRE(minimum.least() == *std::min_element(values.begin(), values.end()));
    REQUIRE(minimum.values() == values);
  }
}

}  // namespace
}  // namespace capstan
