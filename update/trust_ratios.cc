#include "update/trust_ratios.h"

#include <cmath>
#include <limits>

#include "common/config/job/optimizer_section.h"
#include "common/wire/messages/prepared.h"

namespace capstan {

namespace {

float RatioOf(double coefficient, double weight_squares, double direction_squares) {
  const double weights = std::sqrt(weight_squares), direction = std::sqrt(direction_squares);
  if (!(weights > 0) || !(direction > 0)) return 1.0F;
  const double ratio = coefficient * weights / direction;
  if (ratio > static_cast<double>(std::numeric_limits<float>::max())) return 1.0F;
  const auto value = static_cast<float>(ratio);
  return value > 0 ? value : 1.0F;
}

}  // namespace

std::vector<float> TrustRatios(const OptimizerSection& optimizer, const Catalog& catalog, const SegmentOrder& order,
                               const std::vector<const Prepared*>& prepared) {
  const std::size_t count = catalog.tensors().size();
  std::vector<double> weights(count, 0.0), direction(count, 0.0);
  order.ForEach([&](ShardIndex shard, std::size_t position, std::size_t segment) {
    const std::size_t tensor = catalog.segments()[segment].tensor;
    weights[tensor] += prepared[shard]->report.weight_squares[position];
    direction[tensor] += prepared[shard]->report.direction_squares[position];
  });
  const bool is_lars = optimizer.kind == OptimizerKind::kLars;
  std::vector<float> ratios(count, 1.0F);
  for (std::size_t t = 0; t < count; ++t) {
    if (is_lars && catalog.tensors()[t].shape.size() < 2) continue;
    ratios[t] = RatioOf(is_lars ? optimizer.trust_coefficient : 1.0, weights[t], direction[t]);
  }
  return ratios;
}

}  // namespace capstan
