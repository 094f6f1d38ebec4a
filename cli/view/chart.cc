#include "cli/view/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cli/terminal/columns.h"

namespace capstan::cli {
namespace {

constexpr std::size_t kLabelColumnsMax = 10;
constexpr std::array<const char*, 6> kColors = {"\033[36m", "\033[33m", "\033[35m", "\033[32m", "\033[31m", "\033[34m"};
constexpr char kPlain[] = "\033[0m";

// The bit of each dot of a braille character: four rows of two.
constexpr std::array<std::array<unsigned, 2>, 4> kDotBits = {{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};

std::string Braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// Returns the sign of a curve that is drawn without braille.
char SignOf(std::size_t index, std::size_t count) { return count > 1 ? static_cast<char>('a' + index % 26) : '*'; }

// The field of dots on which curves are drawn.
class Field {
 public:
  Field(std::size_t columns, std::size_t rows, bool fine)
      : columns_(columns), rows_(rows), across_(fine ? 2 : 1), down_(fine ? 4 : 1), cells_(columns * rows) {}

  std::size_t width() const { return columns_ * across_; }
  std::size_t height() const { return rows_ * down_; }

  void Set(std::size_t x, std::size_t y, std::size_t curve) {
    Cell& cell = cells_[y / down_ * columns_ + x / across_];
    cell.dots |= kDotBits[y % down_][x % across_];
    cell.curve = curve;
  }

  // Draws a column of dots between two heights, so that a steep curve has no gaps.
  void Join(std::size_t x, std::size_t from, std::size_t to, std::size_t curve) {
    for (std::size_t y = std::min(from, to); y <= std::max(from, to); ++y) Set(x, y, curve);
  }

  std::string Row(std::size_t row, std::size_t curves, const ChartOptions& options) const {
    std::string text, color;
    const auto paint = [&](const std::string& next) {
      if (next == color) return;
      text += next.empty() ? kPlain : next;
      color = next;
    };
    for (std::size_t column = 0; column < columns_; ++column) {
      const Cell& cell = cells_[row * columns_ + column];
      paint(options.colors && cell.dots != 0 ? kColors[cell.curve % kColors.size()] : "");
      text += cell.dots == 0 ? " " : across_ == 2 ? Braille(cell.dots) : std::string(1, SignOf(cell.curve, curves));
    }
    paint("");
    while (text.ends_with(' ')) text.pop_back();
    return text;
  }

 private:
  struct Cell {
    unsigned dots = 0;
    std::size_t curve = 0;  // that was drawn last
  };
  const std::size_t columns_, rows_;
  const std::size_t across_, down_;  // dots of a cell
  std::vector<Cell> cells_;
};

// Returns the place of a value on an axis with `dots` dots.
std::size_t Place(double value, const AxisRange& range, std::size_t dots) {
  const double part = std::clamp((value - range.low) / (range.high - range.low), 0.0, 1.0);
  if (!(part >= 0)) return 0;  // the range has no width that a number can hold
  return static_cast<std::size_t>(std::lround(part * static_cast<double>(dots - 1)));
}

// Draws one curve: in each column of dots the mean of the points there, joined with the column before it.
void Draw(const Series& curve, std::size_t index, const AxisRange& steps, const AxisRange& values, Field* field) {
  std::vector<double> sums(field->width());
  std::vector<std::uint64_t> counts(field->width());
  for (const Series::Point& point : curve.points()) {
    const std::size_t x = Place(point.step(), steps, field->width());
    sums[x] += point.mean() * static_cast<double>(point.count);
    counts[x] += point.count;
  }
  bool begun = false;
  std::size_t last_x = 0, last_y = 0;
  for (std::size_t x = 0; x < field->width(); ++x) {
    if (counts[x] == 0) continue;
    const std::size_t y =
        field->height() - 1 - Place(sums[x] / static_cast<double>(counts[x]), values, field->height());
    if (begun) {
      for (std::size_t between = last_x + 1; between < x; ++between) {
        const double part = static_cast<double>(between - last_x) / static_cast<double>(x - last_x);
        const double there =
            static_cast<double>(last_y) + part * (static_cast<double>(y) - static_cast<double>(last_y));
        field->Set(between, static_cast<std::size_t>(std::lround(there)), index);
      }
    }
    field->Join(x, begun && x == last_x + 1 ? last_y : y, y, index);
    begun = true;
    last_x = x;
    last_y = y;
  }
}

template <class Low, class High>
AxisRange RangeOf(const std::vector<const Series*>& curves, Low low, High high) {
  AxisRange range{HUGE_VAL, -HUGE_VAL};
  for (const Series* curve : curves) {
    if (curve == nullptr) continue;
    for (const Series::Point& point : curve->points()) {
      range.low = std::min(range.low, low(point));
      range.high = std::max(range.high, high(point));
    }
  }
  if (!(range.low <= range.high)) return {};
  if (range.low == range.high) {
    const double margin = range.low == 0 ? 1 : std::max(std::abs(range.low) * 0.1, 1e-300);
    return {range.low - margin, range.high + margin};
  }
  return range;
}

// The label of a row: the value at the top, at the bottom and in the middle.
std::string RowLabel(std::size_t row, std::size_t rows, const AxisRange& values) {
  if (row == 0) return ShortNumber(values.high);
  if (row + 1 == rows) return ShortNumber(values.low);
  return rows >= 5 && row == rows / 2
             ? ShortNumber(values.high -
                           (values.high - values.low) * static_cast<double>(row) / static_cast<double>(rows - 1))
             : "";
}

std::string StepNumber(double step) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), step < 1e15 ? "%.0f" : "%.3g", step);
  return text.data();
}

// The line below the chart: the first step at the left, the title, and the last step at the right.
std::string StepLine(const AxisRange& steps, const std::string& title, std::size_t margin, std::size_t columns) {
  const std::string first = StepNumber(steps.low), last = StepNumber(steps.high);
  std::string line(margin, ' ');
  line += first;
  if (first.size() + last.size() + 1 > columns) return line;
  const std::size_t between = columns - first.size() - last.size(), wanted = ColumnsOf(title);
  if (title.empty() || wanted + 2 > between) return line + std::string(between, ' ') + last;
  const std::size_t before = (between - wanted) / 2;
  return line + std::string(before, ' ') + title + std::string(between - wanted - before, ' ') + last;
}

}  // namespace

AxisRange ValueRange(const std::vector<const Series*>& curves) {
  // The means are drawn; a range of extremes would press them together.
  const auto mean = [](const Series::Point& point) { return point.mean(); };
  return RangeOf(curves, mean, mean);
}

AxisRange StepRange(const std::vector<const Series*>& curves) {
  const AxisRange range = RangeOf(
      curves, [](const Series::Point& point) { return static_cast<double>(point.first_step); },
      [](const Series::Point& point) { return static_cast<double>(point.last_step); });
  return range.low < 0 ? AxisRange{0, std::max(range.high, 1.0)} : range;
}

std::vector<std::string> DrawChart(const std::vector<const Series*>& curves, const ChartOptions& options) {
  if (options.columns < kChartColumnsMin || options.rows < kChartRowsMin) return {};
  const AxisRange values = ValueRange(curves), steps = StepRange(curves);
  const std::size_t rows = options.rows - 1;  // one is for the steps
  std::size_t label = 0;
  for (std::size_t row = 0; row < rows; ++row) label = std::max(label, RowLabel(row, rows, values).size());
  label = std::min(label, kLabelColumnsMax);
  const std::size_t columns = options.columns - label - 3;
  const bool fine = options.glyphs == Glyphs::kBraille && (curves.size() == 1 || options.colors);
  Field field(columns, rows, fine);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    if (curves[i] != nullptr && !curves[i]->empty()) Draw(*curves[i], i, steps, values, &field);
  }
  const std::string bar = options.glyphs == Glyphs::kBraille ? "\u2502" : "|";
  std::vector<std::string> lines;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::string text = RowLabel(row, rows, values);
    lines.push_back(std::string(label - std::min(label, text.size()), ' ') + text + " " + bar + " " +
                    field.Row(row, curves.size(), options));
    while (lines.back().ends_with(' ')) lines.back().pop_back();
  }
  lines.push_back(StepLine(steps, options.title, label + 3, columns));
  return lines;
}

std::string CurveMark(std::size_t index, std::size_t count, const ChartOptions& options) {
  const bool fine = options.glyphs == Glyphs::kBraille && (count == 1 || options.colors);
  const std::string mark = fine ? "\u2022" : std::string(1, SignOf(index, count));
  return options.colors ? kColors[index % kColors.size()] + mark + kPlain : mark;
}

std::vector<double> Ticks(const AxisRange& range, std::size_t count) {
  const double rough = (range.high - range.low) / static_cast<double>(std::max<std::size_t>(count, 1));
  if (!(rough > 0) || !std::isfinite(rough)) return {range.low};
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double digit = rough / power;
  const double step = power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
  std::vector<double> ticks;
  for (double k = std::ceil(range.low / step - 1e-9); k * step <= range.high + step * 1e-9 && ticks.size() <= 4 * count;
       ++k)
    ticks.push_back(k == 0 ? 0 : k * step);
  return ticks;
}

std::string ShortNumber(double value) {
  std::array<char, 32> text{};
  const bool is_whole = std::abs(value) < 1e6 && value == std::floor(value);
  std::snprintf(text.data(), text.size(), is_whole ? "%.0f" : "%.3g", value);
  return text.data();
}

}  // namespace capstan::cli
