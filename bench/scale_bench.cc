#include "bench/scale_bench.h"

#include <algorithm>
#include <cmath>

#include "bench/scale_cost.h"
#include "common/data/catalog.h"
#include "common/wire/wire_codec.h"

namespace capstan::bench {

namespace {

double NumberOf(ScaleSize size, GrowsBy by) { return by == GrowsBy::kWorkers ? size.workers : size.shards; }

std::vector<ScaleCost> AllCosts() {
  std::vector<ScaleCost> costs;
  for (const std::vector<ScaleCost>& part : {CoordinatorCosts(), ShardCosts(), SessionCosts()}) {
    costs.insert(costs.end(), part.begin(), part.end());
  }
  return costs;
}

// Returns the exponent g for which values grow as numbers to the power of g: the slope of a least-squares fit through
// the logarithms.
double GrowthOf(const std::vector<double>& numbers, const std::vector<double>& values) {
  double mean_x = 0.0, mean_y = 0.0, products = 0.0, squares = 0.0;
  const auto count = static_cast<double>(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    mean_x += std::log(numbers[i]) / count;
    mean_y += std::log(values[i]) / count;
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double x = std::log(numbers[i]) - mean_x;
    products += x * (std::log(values[i]) - mean_y);
    squares += x * x;
  }
  return products / squares;
}

Row SizeRow(const ScaleCost& cost, ScaleSize size, std::size_t index) {
  return {.name = "scale/" + cost.name + "/" + std::to_string(size.workers) + "w" + std::to_string(size.shards) + "s",
          .unit = "us",
          .limit_name = "",
          .needs = {index},
          .sample = [index](const std::vector<Readings>& readings) { return Sample{readings[index][0]}; }};
}

Row GrowthRow(const ScaleCost& cost, const std::vector<ScaleSize>& sizes) {
  Row row{.name = "scale/" + cost.name + "/growth",
          .unit = cost.by == GrowsBy::kWorkers ? "workers^" : "shards^",
          .limit_name = cost.design > 0 ? "by design (less is better)" : "",
          .needs = {},
          .sample = {}};
  std::vector<double> numbers;
  for (const ScaleSize& size : sizes) {
    row.needs.push_back(numbers.size());
    numbers.push_back(NumberOf(size, cost.by));
  }
  row.sample = [numbers, design = cost.design](const std::vector<Readings>& readings) {
    std::vector<double> values;
    for (const Readings& reading : readings) values.push_back(reading[0]);
    return Sample{GrowthOf(numbers, values), design};
  };
  return row;
}

RowGroup GroupOf(const ScaleCost& cost, const ScaleOptions& options) {
  RowGroup group;
  for (const ScaleSize& size : options.sizes) {
    group.rows.push_back(SizeRow(cost, size, group.measurements.size()));
    group.measurements.push_back([work = cost.microseconds, size, seconds = options.seconds]() -> Result<Readings> {
      return Readings{work(size, ScaleTimer(seconds))};
    });
  }
  if (options.sizes.size() > 1) group.rows.push_back(GrowthRow(cost, options.sizes));
  return group;
}

}  // namespace

void EncodeAndForget(Outbox* out) {
  std::vector<std::byte> header;
  for (const Envelope& envelope : out->envelopes) CAPSTAN_CHECK(EncodeHeader(envelope.message.header, &header).ok());
  out->Clear();
}

std::vector<TensorSpec> ScaleTensors(std::size_t blocks) {
  return {{"t", {static_cast<std::int64_t>(blocks), kScaleBlockElements}, {InitKind::kZeros, 0.0F}, true}};
}

Plan PlanScale(const ScaleOptions& options) {
  Plan plan;
  plan.rounds = options.rounds;
  for (const ScaleCost& cost : AllCosts()) plan.groups.push_back(GroupOf(cost, options));
  return plan;
}

}  // namespace capstan::bench
