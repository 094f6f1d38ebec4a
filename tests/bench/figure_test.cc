// The arithmetic and the words of figures, with made-up numbers.
#include "bench/figure.h"

#include "bench/figure_text.h"
#include "tests/catch.h"

namespace capstan::bench {
namespace {

Figure Made(const std::string& name, const std::string& unit, const std::vector<Sample>& rounds) {
  return {.name = name, .unit = unit, .limit_name = "a limit", .rounds = rounds};
}

MachineUse UseOf(double own, double processes, double host) {
  return {.available = 1.0, .busy = own + processes, .own = own, .host = host};
}

TEST_CASE("a spread is the value in the middle, the least and the most", "[bench]") {
  const Spread odd = SpreadOf({5.0, 1.0, 3.0});
  CHECK(odd.median == 3.0);
  CHECK(odd.least == 1.0);
  CHECK(odd.most == 5.0);
  CHECK(SpreadOf({4.0, 1.0, 2.0, 9.0}).median == 3.0);
  CHECK(SpreadOf({7.0}).median == 7.0);
}

TEST_CASE("a ratio is the median of the rounds' ratios, not the ratio of the medians", "[bench]") {
  const Figure figure = Made("a", "GB/s", {{1.0, 2.0}, {4.0, 4.0}, {9.0, 3.0}});
  CHECK(figure.Value().median == 4.0);
  CHECK(figure.Limit().median == 3.0);
  CHECK(figure.Ratio().median == 1.0);
  CHECK(figure.Ratio().least == 0.5);
  CHECK(figure.Ratio().most == 3.0);
}

TEST_CASE("a table has medians with their ranges, and a dash where there is no limit", "[bench]") {
  const std::string table = TableOf({Made("bench/long", "GB/s", {{1.0, 2.0}, {4.0, 4.0}, {9.0, 3.0}}),
                                     Made("bench/b", "us", {{10.0, 0.0}, {20.0, 0.0}})});
  CHECK(table ==
        "name        median [least..most]  unit  ratio [least..most]   limit\n"
        "bench/long       4 [1..9]         GB/s  1.000 [0.500..3.000]  3 [2..4] (a limit)\n"
        "bench/b         15 [10..20]       us        -\n");
}

TEST_CASE("a range is left out where all rounds have the same number", "[bench]") {
  CHECK(LineOf(Made("a", "B", {{30.0, 28.0}})) == "a: 30 B, 1.071 of 28 (a limit)");
  CHECK(LineOf(Made("a", "B", {{28.0, 28.0}, {56.0, 28.0}})) ==
        "a: 42 [28..56] B, 1.500 [1.000..2.000] of 28 (a limit)");
}

TEST_CASE("a line says how many rows have fewer rounds", "[bench]") {
  const Results results{.figures = {Made("a", "us", {}), Made("b", "us", {})}, .use = {}, .short_rows = 1};
  CHECK(ShortRowsLine(results) == "1 of 2 rows have fewer rounds than planned, because time was over.");
}

TEST_CASE("a line says how much of the machine others took", "[bench]") {
  const std::vector<Figure> figures = {Made("a", "GB/s", {{1.0, 2.0}})};
  CHECK(OthersLine(UseOf(0.5, 0.04, 0.03), figures) ==
        "While this was measured, others took 7 % of the cores' time (other processes 4 %, the host 3 %).");
  CHECK(OthersLine({}, figures) == "How much of this machine others took is not known: /proc/stat has no times.");
}

TEST_CASE("above a tenth the machine is too busy, and the line says which rows still hold", "[bench]") {
  const Figure rate = Made("a", "GB/s", {{1.0, 2.0}}), cost = Made("b", "s/GB", {{1.0, 2.0}});
  const Figure memory = Made("c", "bytes/parameter", {{1.0, 2.0}});
  const MachineUse busy = UseOf(0.5, 0.05, 0.06);
  using Catch::Matchers::Contains;
  CHECK_THAT(OthersLine(busy, {rate}), Contains("others took 11 %") && Contains("too busy to judge") &&
                                           Contains("No row here still holds") && Contains("measure again"));
  CHECK_THAT(OthersLine(busy, {rate, cost, memory, cost}),
             Contains("Only rows in s/GB and bytes/parameter still hold"));
  CHECK_THAT(OthersLine(busy, {memory}), Contains("still hold") && !Contains("measure again"));
}

}  // namespace
}  // namespace capstan::bench
