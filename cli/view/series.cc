#include "cli/view/series.h"

#include <algorithm>
#include <cmath>

namespace capstan::cli {
namespace {

// Values beyond this are drawn there, so that sums stay finite.
constexpr double kLargest = 1e280;

}  // namespace

void Series::Add(std::uint64_t step, double value) {
  while (!points_.empty() && points_.back().first_step >= step) points_.pop_back();
  if (!std::isfinite(value)) {
    ++not_finite_;
    return;
  }
  const double drawn = std::clamp(value, -kLargest, kLargest);
  if (points_.empty() || points_.back().count >= per_point_ || points_.back().last_step >= step) {
    if (points_.size() == kPointsMax) Halve();
    points_.push_back({step, step, 1, drawn, drawn, drawn});
    return;
  }
  Point& last = points_.back();
  last.last_step = step;
  ++last.count;
  last.sum += drawn;
  last.min = std::min(last.min, drawn);
  last.max = std::max(last.max, drawn);
}

void Series::Halve() {
  std::vector<Point> fewer;
  for (std::size_t i = 0; i < points_.size(); i += 2) {
    Point point = points_[i];
    if (i + 1 < points_.size()) {
      const Point& next = points_[i + 1];
      point.last_step = next.last_step;
      point.count += next.count;
      point.sum += next.sum;
      point.min = std::min(point.min, next.min);
      point.max = std::max(point.max, next.max);
    }
    fewer.push_back(point);
  }
  points_ = std::move(fewer);
  per_point_ *= 2;
}

}  // namespace capstan::cli
