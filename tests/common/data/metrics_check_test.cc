#include "common/data/metrics_check.h"

#include <limits>

#include "common/base/utf8.h"
#include "tests/catch.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

std::string Refusal(const std::vector<Metric>& metrics) {
  const Status status = CheckMetrics(metrics);
  CHECK(status.code() == Code::kInvalid);
  return status.message();
}

TEST_CASE("metrics with a plain name, a finite sum and a weight of at least 0 are good", "[common][metrics]") {
  CHECK(CheckMetrics({}).ok());
  CHECK(CheckMetrics({{"a", -1e300, 0.0}, {"val/top-5_x.Z9", 3.0, 4.0}, {std::string(64, 'x'), 0, 1}}).ok());
  CHECK(CheckMetrics(std::vector<Metric>(32, {"a", 1, 1})).ok());
}

TEST_CASE("a metric that cannot be is named", "[common][metrics]") {
  for (const char* name : {"", "a b", "a\"", "\xC3\xA9", "a\n", "a{"}) {
    CHECK_THAT(Refusal({{"good", 1, 1}, {name, 1, 1}}), Contains("metric \"" + Excerpt(name) + "\": a name has"));
  }
  CHECK_THAT(Refusal({{std::string(65, 'x'), 1, 1}}), Contains("this one has 65"));
  CHECK_THAT(Refusal({{"a", kNotANumber, 1}}), Contains("metric \"a\": its sum is nan"));
  CHECK_THAT(Refusal({{"a", -kUnlimited, 1}}), Contains("its sum is -inf"));
  CHECK_THAT(Refusal({{"a", 1, kUnlimited}}), Contains("its weight is inf"));
  CHECK_THAT(Refusal({{"a", 1, kNotANumber}}), Contains("its weight is nan"));
  CHECK_THAT(Refusal({{"a", 1, -0.5}}), Contains("its weight is -0.5"));
  std::vector<Metric> many(33, {"a", 1, 1});
  many[32].name = "last";
  CHECK_THAT(Refusal(many), Contains("at most 32") && Contains("33") && Contains("\"last\""));
}

}  // namespace
}  // namespace capstan
