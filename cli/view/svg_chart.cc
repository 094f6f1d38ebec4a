#include "cli/view/svg_chart.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/view/chart.h"
#include "common/base/utf8.h"
#include "monitoring/status_page.h"

namespace capstan::cli {
namespace {

constexpr double kWidth = 960, kHeight = 540;
constexpr double kLeft = 80, kRight = 20, kTop = 50, kBottom = 50;
constexpr std::size_t kTicks = 6, kLegendRowsMax = 20;
constexpr double kLegendRow = 18;
constexpr std::array<const char*, 6> kInks = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9"};

template <class... Values>
std::string Format(const char* format, Values... values) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string Clean(const std::string& text) { return monitoring::EscapeHtml(Excerpt(text)); }

// Turns values into places of the picture.
struct Frame {
  AxisRange steps, values;

  double X(double step) const {
    return kLeft + (step - steps.low) / (steps.high - steps.low) * (kWidth - kLeft - kRight);
  }
  double Y(double value) const {
    return kHeight - kBottom - (value - values.low) / (values.high - values.low) * (kHeight - kTop - kBottom);
  }
};

std::string Axes(const Frame& frame) {
  std::string svg;
  for (const double value : Ticks(frame.values, kTicks)) {
    const double y = frame.Y(value);
    svg += Format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", kLeft, y,
                  kWidth - kRight, y);
    svg += Format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", kLeft - 8, y + 4,
                  ShortNumber(value).c_str());
  }
  for (const double step : Ticks(frame.steps, kTicks)) {
    svg += Format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.15g</text>\n", frame.X(step),
                  kHeight - kBottom + 20, step);
  }
  return svg + Format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">step</text>\n", (kLeft + kWidth - kRight) / 2,
                      kHeight - 10);
}

// The range of the values behind each point, as an area.
std::string Band(const Series& series, const Frame& frame, const char* ink) {
  std::string points;
  for (const Series::Point& point : series.points())
    points += Format("%.1f,%.1f ", frame.X(point.step()), frame.Y(std::min(point.max, frame.values.high)));
  for (auto point = series.points().rbegin(); point != series.points().rend(); ++point)
    points += Format("%.1f,%.1f ", frame.X(point->step()), frame.Y(std::max(point->min, frame.values.low)));
  return Format("<polygon fill=\"%s\" fill-opacity=\"0.15\" points=\"", ink) + points + "\"/>\n";
}

std::string Curve(const Series& series, const Frame& frame, const char* ink) {
  std::string svg, points;
  bool has_ranges = false;
  for (const Series::Point& point : series.points()) {
    points += Format("%.1f,%.1f ", frame.X(point.step()), frame.Y(point.mean()));
    has_ranges = has_ranges || point.count > 1;
  }
  if (has_ranges) svg += Band(series, frame, ink);
  if (series.points().size() == 1)
    return svg + Format("<circle r=\"3\" fill=\"%s\" cx=\"%.1f\" cy=\"%.1f\"/>\n", ink,
                        frame.X(series.points()[0].step()), frame.Y(series.points()[0].mean()));
  return svg + Format("<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"", ink) + points + "\"/>\n";
}

std::string Legend(const std::vector<NamedCurve>& curves) {
  std::string svg;
  for (std::size_t i = 0; i < curves.size() && i < kLegendRowsMax; ++i) {
    svg += Format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" fill=\"%s\">", kWidth - kRight - 8,
                  kTop + 16 + kLegendRow * static_cast<double>(i), kInks[i % kInks.size()]) +
           Clean(curves[i].name) + "</text>\n";
  }
  return svg;
}

}  // namespace

std::string SvgChart(const std::vector<NamedCurve>& curves, const std::string& title) {
  std::vector<const Series*> all;
  for (const NamedCurve& curve : curves) all.push_back(&curve.series);
  const Frame frame{StepRange(all), ValueRange(all)};
  std::string svg =
      Format(
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
          "font-family=\"sans-serif\" font-size=\"13\" fill=\"#333\">\n",
          kWidth, kHeight, kWidth, kHeight) +
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  svg += Format("<text x=\"%.1f\" y=\"30\" font-size=\"16\">", kLeft) + Clean(title) + "</text>\n" + Axes(frame);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    if (!curves[i].series.empty()) svg += Curve(curves[i].series, frame, kInks[i % kInks.size()]);
  }
  return svg + Legend(curves) + "</svg>\n";
}

}  // namespace capstan::cli
