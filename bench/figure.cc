#include "bench/figure.h"

#include <algorithm>

#include "common/base/status.h"

namespace capstan::bench {
namespace {

template <class Get>
Spread SpreadBy(const std::vector<Sample>& rounds, const Get& get) {
  std::vector<double> values;
  for (const Sample& round : rounds) values.push_back(get(round));
  return SpreadOf(std::move(values));
}

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  CAPSTAN_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

Spread Figure::Value() const {
  return SpreadBy(rounds, [](const Sample& round) { return round.value; });
}

Spread Figure::Limit() const {
  return SpreadBy(rounds, [](const Sample& round) { return round.limit; });
}

Spread Figure::Ratio() const {
  return SpreadBy(rounds, [](const Sample& round) { return round.value / round.limit; });
}

}  // namespace capstan::bench
