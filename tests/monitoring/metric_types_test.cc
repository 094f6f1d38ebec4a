#include "monitoring/metric_types.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "monitoring/metrics.h"
#include "tests/catch.h"

namespace capstan::monitoring {
namespace {

constexpr std::array kSmall = {1.0, 2.0, 4.0};

template <class H>
std::vector<std::uint64_t> Counts(const H& histogram) {
  std::vector<std::uint64_t> counts;
  for (const auto& count : histogram.view().counts) counts.push_back(count.load());
  return counts;
}

}  // namespace

TEST_CASE("an observation falls into the first bucket whose bound is not below it", "[monitoring]") {
  Histogram<kSmall> histogram;
  for (const double value : {-3.0, 0.5, 1.0, 1.0000001, 2.0, 3.0, 4.0, 4.1, 1e9}) histogram.Observe(value);
  CHECK(Counts(histogram) == std::vector<std::uint64_t>{3, 2, 2, 2});
  CHECK(histogram.count() == 9);
  CHECK(histogram.view().sum == Approx(-3.0 + 0.5 + 1.0 + 1.0000001 + 2.0 + 3.0 + 4.0 + 4.1 + 1e9));
}

TEST_CASE("an infinite or NaN observation is counted above every bound and leaves the sum whole", "[monitoring]") {
  Histogram<kSmall> histogram;
  histogram.Observe(std::nan(""));
  histogram.Observe(std::numeric_limits<double>::infinity());
  histogram.Observe(1.5);
  CHECK(Counts(histogram) == std::vector<std::uint64_t>{0, 1, 0, 2});
  CHECK(histogram.view().sum == 1.5);
}

TEST_CASE("a duration is observed in seconds", "[monitoring]") {
  Histogram<kRequestSeconds> histogram;
  histogram.Observe(std::chrono::milliseconds(3));
  CHECK(histogram.view().sum == Approx(0.003));
  CHECK(histogram.view().counts[6].load() == 1);  // above 2.5 ms, up to 5 ms
}

TEST_CASE("staleness has the buckets 0 1 2 3 4 6 8 12 16 32 64", "[monitoring]") {
  ShardMetrics metrics;
  for (int staleness = 0; staleness <= 65; ++staleness) metrics.staleness_steps.Observe(staleness);
  CHECK(Counts(metrics.staleness_steps) == std::vector<std::uint64_t>{1, 1, 1, 1, 1, 2, 2, 4, 4, 16, 32, 1});
}

TEST_CASE("every bucket list ascends", "[monitoring]") {
  CHECK(std::is_sorted(kRequestSeconds.begin(), kRequestSeconds.end()));
  CHECK(std::is_sorted(kStepSeconds.begin(), kStepSeconds.end()));
  CHECK(std::is_sorted(kStalenessSteps.begin(), kStalenessSteps.end()));
}

TEST_CASE("a counter never falls", "[monitoring]") {
  Counter counter;
  counter.Add();
  counter.Add(6);
  CHECK(counter.value() == 7);
  counter.AdvanceTo(10);
  counter.AdvanceTo(3);
  CHECK(counter.value() == 10);

  SecondsCounter seconds;
  seconds.Add(1.5);
  seconds.Add(-1.0);
  seconds.Add(std::nan(""));
  seconds.Add(std::chrono::milliseconds(500));
  CHECK(seconds.value() == 2.0);
}

TEST_CASE("an optional gauge is absent until it is set, and may then be NaN", "[monitoring]") {
  OptionalGauge gauge;
  CHECK_FALSE(gauge.value().has_value());
  gauge.Set(std::nan(""));
  REQUIRE(gauge.value().has_value());
  CHECK(std::isnan(*gauge.value()));
}

TEST_CASE("labelled counters do not touch each other", "[monitoring]") {
  ShardMetrics metrics;
  metrics.requests[RequestOp::kPush][Code::kBusy].Add(3);
  metrics.requests[RequestOp::kOther][Code::kRefused].Add(4);
  CHECK(metrics.requests[RequestOp::kPush][Code::kBusy].value() == 3);
  CHECK(metrics.requests[RequestOp::kPush][Code::kOk].value() == 0);
  CHECK(metrics.requests[RequestOp::kPull][Code::kBusy].value() == 0);
  CHECK(metrics.requests[RequestOp::kOther][Code::kRefused].value() == 4);
}

TEST_CASE("a reader beside the writing thread sees counters grow and ends with all of them", "[monitoring]") {
  ShardMetrics metrics;
  constexpr std::uint64_t kCount = 200'000;
  std::thread writer([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      metrics.pushes_staged.Add();
      metrics.apply_seconds.Observe(1e-3);
    }
  });
  std::uint64_t last = 0;
  bool grew = true;
  while (last < kCount) {
    const std::uint64_t now = metrics.pushes_staged.value();
    grew = grew && now >= last;
    last = now;
  }
  writer.join();
  CHECK(grew);
  CHECK(metrics.apply_seconds.count() == kCount);
}

}  // namespace capstan::monitoring
