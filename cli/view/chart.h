// DrawChart: curves as characters, with the value and the step at the edges. Ticks: round numbers for an axis.
//
// Kind:   pure functions.
// Limits: a chart has at most the given lines and columns. Below kChartColumnsMin or kChartRowsMin it is empty.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/view/series.h"

namespace capstan::cli {

inline constexpr std::size_t kChartColumnsMin = 16, kChartRowsMin = 3;

enum class Glyphs { kAscii, kBraille };

struct ChartOptions {
  std::size_t columns = 80, rows = 12;
  Glyphs glyphs = Glyphs::kAscii;
  bool colors = false;  // a color for each curve; without, several curves are drawn with letters
  std::string title{};  // stands below the chart, between the first step and the last
};

// Draws the means of curves that are not null. Curves without a point are not drawn.
std::vector<std::string> DrawChart(const std::vector<const Series*>& curves, const ChartOptions& options);

// Returns the sign and the color of the curve with this index, as DrawChart uses them where there are `count` curves:
// for a legend.
std::string CurveMark(std::size_t index, std::size_t count, const ChartOptions& options);

// The range that an axis shows.
struct AxisRange {
  double low = 0, high = 1;
};
// Returns the range of all values, or of all steps; widened where it would be empty.
AxisRange ValueRange(const std::vector<const Series*>& curves);
AxisRange StepRange(const std::vector<const Series*>& curves);

// Returns round numbers in the range, about `count` of them.
std::vector<double> Ticks(const AxisRange& range, std::size_t count);

// Returns a number with as many digits as a reader needs, such as "0.0123" or "1.2e+06".
std::string ShortNumber(double value);

}  // namespace capstan::cli
