#include "cli/view/series.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

namespace capstan::cli {
namespace {

TEST_CASE("a few values are points of their own", "[cli][series]") {
  Series series;
  for (std::uint64_t step : {0, 1, 5}) series.Add(step, static_cast<double>(step) * 2);
  REQUIRE(series.points().size() == 3);
  CHECK(series.points()[2].step() == 5);
  CHECK(series.points()[2].mean() == 10);
}

TEST_CASE("very many values take little room, and none is lost from the means", "[cli][series]") {
  Series series;
  constexpr std::uint64_t kSteps = 1'000'000;
  for (std::uint64_t step = 0; step < kSteps; ++step) series.Add(step, static_cast<double>(step));
  CHECK(series.points().size() <= Series::kPointsMax);
  CHECK(series.points().size() > Series::kPointsMax / 4);
  std::uint64_t count = 0;
  double sum = 0;
  for (const Series::Point& point : series.points()) {
    count += point.count;
    sum += point.sum;
    CHECK(point.min == static_cast<double>(point.first_step));
    CHECK(point.max == static_cast<double>(point.last_step));
  }
  CHECK(count == kSteps);
  CHECK(sum == Approx(static_cast<double>(kSteps) * (kSteps - 1) / 2));
}

TEST_CASE("steps that are done again replace those before", "[cli][series]") {
  Series series;
  for (std::uint64_t step = 0; step < 10; ++step) series.Add(step, 1);
  series.Add(4, 2);
  series.Add(5, 3);
  REQUIRE(series.points().size() == 6);
  CHECK(series.points()[3].mean() == 1);
  CHECK(series.points()[4].mean() == 2);
  CHECK(series.points()[5].mean() == 3);
  series.Add(0, 7);
  REQUIRE(series.points().size() == 1);
  CHECK(series.points()[0].mean() == 7);
}

TEST_CASE("values that are not finite are counted, and huge ones keep sums finite", "[cli][series]") {
  Series series;
  series.Add(0, std::nan(""));
  series.Add(1, std::numeric_limits<double>::infinity());
  CHECK(series.empty());
  CHECK(series.not_finite() == 2);
  for (std::uint64_t step = 2; step < 3 * Series::kPointsMax; ++step) series.Add(step, 1.7e308);
  for (const Series::Point& point : series.points()) CHECK(std::isfinite(point.mean()));
}

}  // namespace
}  // namespace capstan::cli
