// Measure runs the wanted part of a plan, by turns.
#include "bench/plan.h"

#include <memory>
#include <string>
#include <utility>

#include "tests/catch.h"

namespace capstan::bench {
namespace {

// Two measurements and two rows: "x/first" needs only the first one. Each call appends a letter to `calls`.
RowGroup MadeGroup(const std::string& name, std::string* calls) {
  RowGroup group;
  group.measurements = {[calls]() -> Result<Readings> {
                          *calls += 'a';
                          return Readings{static_cast<double>(calls->size())};
                        },
                        [calls]() -> Result<Readings> {
                          *calls += 'b';
                          return Readings{2.0};
                        }};
  group.rows = {{.name = name + "/first",
                 .unit = "us",
                 .limit_name = "",
                 .needs = {0},
                 .sample = [](const std::vector<Readings>& readings) { return Sample{readings[0][0]}; }},
                {.name = name + "/both",
                 .unit = "us",
                 .limit_name = "b",
                 .needs = {0, 1},
                 .sample = [](const std::vector<Readings>& readings) {
                   return Sample{readings[0][0], readings[1][0]};
                 }}};
  return group;
}

TEST_CASE("measurements take turns in each round", "[bench]") {
  std::string calls;
  const Result<Results> results = Measure({{MadeGroup("x", &calls)}, 3}, {});
  REQUIRE(results.ok());
  CHECK(calls == "ababab");
  REQUIRE(results->figures.size() == 2);
  CHECK(results->figures[1].rounds.size() == 3);
  CHECK(results->figures[1].Value().median == 3.0);
  CHECK(results->figures[1].Ratio().most == 2.5);
}

TEST_CASE("nothing is measured that no wanted row needs", "[bench]") {
  std::string calls, others;
  std::vector<std::string> told;
  const Choice choice{
      .only = "x/first", .left_out = "", .measured = [&](const Figure& figure) { told.push_back(figure.name); }};
  const Result<Results> results = Measure({{MadeGroup("x", &calls), MadeGroup("y", &others)}, 2}, choice);
  REQUIRE(results.ok());
  CHECK(calls == "aa");
  CHECK(others.empty());
  CHECK(told == std::vector<std::string>{"x/first"});
}

TEST_CASE("a text that is in no name is an error with all names, and nothing is measured", "[bench]") {
  std::string calls;
  const Result<Results> results = Measure({{MadeGroup("x", &calls)}, 2}, {.only = "xx", .left_out = "large sizes"});
  CHECK(results.status().code() == Code::kInvalid);
  CHECK(results.status().message() ==
        "no row has \"xx\" in its name (left out: large sizes); there are:\n  x/first\n  x/both");
  CHECK(calls.empty());
}

TEST_CASE("a group whose time is over has two rounds, and its rows are counted as short", "[bench]") {
  std::string calls;
  Plan plan{{MadeGroup("x", &calls)}, 5};
  plan.seconds_max = 1e-9;
  const Result<Results> results = Measure(std::move(plan), {});
  REQUIRE(results.ok());
  CHECK(calls == "abab");
  CHECK(results->short_rows == 2);
  calls.clear();
  CHECK(Measure({{MadeGroup("x", &calls)}, 1, 1e-9}, {})->short_rows == 0);
}

TEST_CASE("a measurement that fails ends the benchmark", "[bench]") {
  std::string calls;
  RowGroup group = MadeGroup("x", &calls);
  group.measurements[1] = []() -> Result<Readings> { return Timeout("no answer"); };
  CHECK(Measure({{std::move(group)}, 2}, {}).status().message() == "no answer");
  CHECK(calls == "a");
}

TEST_CASE("what a group's measurements keep ends with the group", "[bench]") {
  std::string calls;
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = kept;
  Plan plan;
  plan.groups.push_back(MadeGroup("x", &calls));
  plan.groups.push_back(MadeGroup("y", &calls));
  plan.groups[0].measurements[0] = [kept]() -> Result<Readings> { return Readings{1.0}; };
  kept.reset();
  bool is_gone = false;
  plan.groups[1].measurements[0] = [&]() -> Result<Readings> {
    is_gone = watched.expired();
    return Readings{1.0};
  };
  REQUIRE(Measure(std::move(plan), {}).ok());
  CHECK(is_gone);
}

}  // namespace
}  // namespace capstan::bench
