#include "common/data/clipping.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("one limit for clipping, or none, is taken", "[common][clipping]") {
  CHECK(CheckClipping({}).ok());
  CHECK(CheckClipping({.norm = 1.0}).ok());
  CHECK(CheckClipping({.value = 0.5}).ok());
  CHECK_THAT(CheckClipping({.norm = 1.0, .value = 0.5}).message(),
             Contains("(norm 1 and value 0.5)") && Contains("set one of them to 0"));
}

TEST_CASE("limits are shown with all their digits", "[common][clipping]") {
  CHECK(TextOf(Clipping()) == "none");
  CHECK(TextOf(Clipping{.norm = 1.5}) == "norm 1.5");
  CHECK(TextOf(Clipping{.value = 0.5}) == "value 0.5");
}

TEST_CASE("a limit that is negative, not finite or 0 as fp32 is named with its value", "[common][clipping]") {
  for (const double bad : {-1.0, 1e-50, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CAPTURE(bad);
    CHECK_THAT(CheckClipping({.norm = bad}).message(), Contains("the norm to clip to is "));
    CHECK_THAT(CheckClipping({.value = bad}).message(), Contains("the value to clip to is "));
    CHECK(CheckClipping({.value = bad}).code() == Code::kInvalid);
  }
}

}  // namespace
}  // namespace capstan
