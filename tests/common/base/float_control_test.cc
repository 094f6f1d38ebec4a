#include "common/base/float_control.h"

#include "tests/catch.h"
#include "tests/common/base/flush_to_zero.h"

namespace capstan {
namespace {

TEST_CASE("a thread computes normally under FloatControl, and as before behind it", "[float]") {
  REQUIRE(ComputesNormally());
  bool before = true, under = false, after = true;
  {
    const FlushToZero host;
    before = ComputesNormally();
    {
      const FloatControl control;
      under = ComputesNormally();
    }
    after = ComputesNormally();
  }
  CHECK_FALSE(before);
  CHECK(under);
  CHECK_FALSE(after);
  CHECK(ComputesNormally());
}

}  // namespace
}  // namespace capstan
