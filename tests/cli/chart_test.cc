#include "cli/view/chart.h"

#include "cli/terminal/columns.h"
#include "cli/view/svg_chart.h"
#include "tests/catch.h"

namespace capstan::cli {
namespace {

using Lines = std::vector<std::string>;

Series Falling() {
  Series series;
  for (std::uint64_t step = 0; step <= 20; ++step) series.Add(step, 4.0 / (1.0 + static_cast<double>(step) / 4));
  return series;
}

std::string Text(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST_CASE("a curve in ASCII", "[cli][chart]") {
  const Series series = Falling();
  CHECK("\n" + Text(DrawChart({&series}, {.columns = 30, .rows = 8, .title = "loss"})) == R"(
    4 | **
      |  **
      |   **
 2.33 |    **
      |     ****
      |        ********
0.667 |               ********
        0       loss        20
)");
}

TEST_CASE("a curve in braille", "[cli][chart]") {
  const Series series = Falling();
  CHECK("\n" + Text(DrawChart({&series}, {.columns = 30, .rows = 5, .glyphs = Glyphs::kBraille})) == R"(
    4 │ ⠡
      │  ⠑⢄
      │    ⠉⠒⠤⣀⣀
0.667 │         ⠉⠉⠑⠒⠒⠢⠤⠤⠤⠤⣀⣀⣀⣀
        0                   20
)");
}

TEST_CASE("several curves have letters, or colors", "[cli][chart]") {
  Series low, high;
  for (std::uint64_t step = 0; step < 12; ++step) {
    low.Add(step, 1);
    high.Add(step, 3);
  }
  const std::vector<const Series*> both = {&low, &high};
  CHECK("\n" + Text(DrawChart(both, {.columns = 16, .rows = 4})) == R"(
3 | bbbbbbbbbbbb
  |
1 | aaaaaaaaaaaa
    0         11
)");
  const ChartOptions colored{.columns = 16, .rows = 4, .colors = true};
  CHECK(DrawChart(both, colored)[0].find("\033[33mbbbbbbbbbbbb\033[0m") != std::string::npos);
  CHECK(CurveMark(1, 2, colored) == "\033[33mb\033[0m");
  CHECK(CurveMark(0, 1, {}) == "*");
}

TEST_CASE("a chart keeps within its columns and rows, whatever the values are", "[cli][chart]") {
  for (const double scale : {0.0, 1e-300, 1.0, -1e9, 1e280}) {
    Series series;
    for (std::uint64_t step = 0; step < 50; ++step)
      series.Add(step * 1'000'000'007, scale * static_cast<double>(step % 7));
    for (std::size_t columns = 0; columns < 60; ++columns) {
      for (std::size_t rows = 0; rows < 12; ++rows) {
        const Lines lines = DrawChart({&series}, {.columns = columns, .rows = rows, .glyphs = Glyphs::kBraille});
        REQUIRE(lines.size() <= rows);
        for (const std::string& line : lines) REQUIRE(ColumnsOf(line) <= columns);
        REQUIRE(lines.empty() == (columns < kChartColumnsMin || rows < kChartRowsMin));
      }
    }
  }
}

TEST_CASE("no point and one point make a chart too", "[cli][chart]") {
  Series none, one;
  one.Add(7, 2);
  CHECK(DrawChart({&none}, {.columns = 20, .rows = 4}).size() == 4);
  CHECK(Text(DrawChart({&one}, {.columns = 20, .rows = 4})).find('*') != std::string::npos);
}

TEST_CASE("a curve of one value is drawn in the middle, however small or large the value is", "[cli][chart]") {
  for (const double value : {5e-324, -5e-324, 1e-310, 1e-300, 1.0, -1e280, 1e280}) {
    Series flat;
    for (std::uint64_t step = 0; step < 5; ++step) flat.Add(step, value);
    CAPTURE(value);
    const AxisRange range = ValueRange({&flat});
    CHECK(range.low < value);
    CHECK(value < range.high);
    const Lines lines = DrawChart({&flat}, {.columns = 20, .rows = 6});
    CHECK(Text(lines).find('*') != std::string::npos);
  }
}

TEST_CASE("an axis has round numbers", "[cli][chart]") {
  CHECK(Ticks({0, 100}, 5) == std::vector<double>{0, 20, 40, 60, 80, 100});
  CHECK(Ticks({0.13, 0.58}, 4).front() == Approx(0.2));
  CHECK(Ticks({-1, 1}, 4) == std::vector<double>{-1, -0.5, 0, 0.5, 1});
  CHECK(ShortNumber(1500) == "1500");
  CHECK(ShortNumber(0.01234) == "0.0123");
  CHECK(ShortNumber(1.23e-7) == "1.23e-07");
}

TEST_CASE("a picture has the curves, their names and nothing that a name could forge", "[cli][chart]") {
  const std::string svg = SvgChart({{"runs/<a>\x1b&\"", Falling()}, {"b", Falling()}}, "loss");
  CHECK(svg.starts_with("<svg xmlns="));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.find("runs/&lt;a&gt;\\x1B&amp;&quot;</text>") != std::string::npos);
  CHECK(svg.find(">b</text>") != std::string::npos);
  std::size_t curves = 0;
  for (std::size_t at = 0; (at = svg.find("<polyline", at)) != svg.npos; ++at) ++curves;
  CHECK(curves == 2);
  Series many;
  for (std::uint64_t step = 0; step < 10 * Series::kPointsMax; ++step) many.Add(step, static_cast<double>(step % 10));
  const std::string with_band = SvgChart({{"many", many}}, "loss");
  CHECK(with_band.find("<polygon") != std::string::npos);
  CHECK(with_band.size() < 200'000);
  CHECK(SvgChart({{"one",
                   [] {
                     Series one;
                     one.Add(0, 1);
                     return one;
                   }()}},
                 "loss")
            .find("<circle") != std::string::npos);
}

}  // namespace
}  // namespace capstan::cli
