// Series: a value over the steps of a run, in as many points as a picture can show.
//
// Kind:   a value.
// Limits: kPointsMax points. When one more does not fit, neighbours become one point with their mean and range.
// Why:    a run may have a billion steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace capstan::cli {

class Series {
 public:
  static constexpr std::size_t kPointsMax = 2048;

  struct Point {
    std::uint64_t first_step = 0, last_step = 0;
    std::uint64_t count = 0;  // of values
    double sum = 0, min = 0, max = 0;

    double step() const { return (static_cast<double>(first_step) + static_cast<double>(last_step)) / 2; }
    double mean() const { return sum / static_cast<double>(count); }
  };

  // Adds the value of a step; one that is not finite is counted and not drawn. A step that is not after the last one
  // was done again after a recovery: the values of that step and of later ones are dropped.
  void Add(std::uint64_t step, double value);

  const std::vector<Point>& points() const { return points_; }
  bool empty() const { return points_.empty(); }
  std::uint64_t not_finite() const { return not_finite_; }

 private:
  void Halve();

  std::vector<Point> points_;
  std::uint64_t per_point_ = 1;  // values that a point takes
  std::uint64_t not_finite_ = 0;
};

}  // namespace capstan::cli
