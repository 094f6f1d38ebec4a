#include "bench/scale_bench.h"

#include <algorithm>
#include <cmath>

#include "bench/scale_cost.h"
#include "common/data/catalog.h"
#include "common/wire/wire_codec.h"

namespace capstan::bench {

namespace {

Figure Plain(const std::string& name, double value, const std::string& unit) {
  return {name, value, unit, 0.0, {}, 0.0};
}

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

}  // namespace

void EncodeAndForget(Outbox* out) {
  std::vector<std::byte> header;
  for (const Envelope& envelope : out->envelopes) CAPSTAN_CHECK(EncodeHeader(envelope.message.header, &header).ok());
  out->Clear();
}

std::vector<TensorSpec> ScaleTensors(std::size_t blocks) {
  return {{"t", {static_cast<std::int64_t>(blocks), kScaleBlockElements}, {InitKind::kZeros, 0.0F}, true}};
}

Result<std::vector<Figure>> MeasureScale(const ScaleOptions& options) {
  std::vector<Figure> figures;
  const auto add = [&](Figure figure) {
    if (options.parts.measured) options.parts.measured(figure);
    figures.push_back(std::move(figure));
  };
  const ScaleTimer timer(options.seconds);
  std::string names;
  for (const ScaleCost& cost : AllCosts()) {
    const std::string name = "scale/" + cost.name;
    names += (names.empty() ? "" : ", ") + name;
    if (name.find(options.parts.only) == name.npos) continue;
    std::vector<double> numbers, values;
    for (const ScaleSize& size : options.sizes) {
      numbers.push_back(NumberOf(size, cost.by));
      values.push_back(cost.microseconds(size, timer));
      add(Plain(name + "/" + std::to_string(size.workers) + "w" + std::to_string(size.shards) + "s", values.back(),
                "us"));
    }
    if (options.sizes.size() < 2) continue;
    Figure growth =
        Plain(name + "/growth", GrowthOf(numbers, values), cost.by == GrowsBy::kWorkers ? "workers^" : "shards^");
    if (cost.design > 0) {
      growth.limit = cost.design;
      growth.limit_name = "by design (less is better)";
      growth.ratio = growth.value / growth.limit;
    }
    add(std::move(growth));
  }
  if (figures.empty()) return Invalid("no figure has \"" + options.parts.only + "\" in its name; there are " + names);
  return figures;
}

}  // namespace capstan::bench
