// Small runs of every benchmark: each runs and gives its figures. Few values are checked, because most depend on the
// machine.
#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <utility>

#include "bench/allreduce_bench.h"
#include "bench/apply_bench.h"
#include "bench/bench_table.h"
#include "bench/memory_bench.h"
#include "bench/push_pull_bench.h"
#include "bench/scale_bench.h"
#include "bench/snapshot_bench.h"
#include "bench/train_bench.h"
#include "tests/catch.h"
#include "tests/compared_with_nothing.h"

namespace capstan::bench {
namespace {

const Figure& Named(const std::vector<Figure>& figures, const std::string& name) {
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.name == name; });
  INFO(name);
  REQUIRE(found != figures.end());
  return *found;
}

std::vector<Figure> FiguresOf(Plan plan, const std::string& only = "") {
  Result<Results> results = Measure(std::move(plan), {.only = only});
  INFO((results.ok() ? "" : results.status().message()));
  REQUIRE(results.ok());
  return std::move(results->figures);
}

std::vector<std::string> RowNamesOf(const Plan& plan) {
  std::vector<std::string> names;
  for (const RowGroup& group : plan.groups) {
    for (const Row& row : group.rows) names.push_back(row.name);
  }
  return names;
}

void CheckSound(const std::vector<Figure>& figures) {
  for (const Figure& figure : figures) {
    INFO(figure.name);
    CHECK(figure.Value().least > 0.0);
    CHECK(std::isfinite(figure.Value().most));
    CHECK_FALSE(figure.unit.empty());
    if (figure.has_limit()) {
      CHECK_FALSE(figure.limit_name.empty());
      CHECK(figure.Limit().least > 0.0);
    }
    const auto same = [&](const Figure& other) { return other.name == figure.name; };
    CHECK(std::count_if(figures.begin(), figures.end(), same) == 1);
  }
}

TEST_CASE("apply gives a figure for each optimizer, on one core and on all", "[bench]") {
  const std::vector<Figure> figures = FiguresOf(PlanApply({.model_mib = 2, .rounds = 2}));
  const bool one_core = std::thread::hardware_concurrency() <= 1;
  REQUIRE(figures.size() == (one_core ? 5 : 10));
  CheckSound(figures);
  CHECK(Named(figures, "apply/adamw/2-inputs/1-thread/2-mib").rounds.size() == 2);
}

TEST_CASE("all-reduce gives bus bandwidth beside Gloo's and that of plain sockets, and encrypted", "[bench]") {
  Result<Plan> plan = PlanAllReduce({.processes = {2, 3}, .bytes = {4u << 10, 1u << 20}, .rounds = 1, .seconds = 0.01});
  if (plan.status().code() == Code::kUnsupported) {
    testing::ComparedWithNothing("all-reduce beside Gloo's and that of plain sockets", plan.status().message());
    return;
  }
  REQUIRE(plan.ok());
  const std::vector<Figure> figures = FiguresOf(*std::move(plan));
  CHECK(figures.size() == 12);
  CheckSound(figures);
  CHECK(Named(figures, "allreduce/3p/1-mib").has_limit());
  CHECK(Named(figures, "allreduce/3p/1-mib/secure").has_limit());
}

TEST_CASE("snapshot gives the speed of the disk, the slowest step beside the median one, and the memory it takes",
          "[bench]") {
  const SnapshotOptions options{.state_mib = 24, .every_steps = 16, .snapshots = 2, .rounds = 1};
  const std::vector<Figure> figures = FiguresOf(PlanSnapshot(options));
  CHECK(figures.size() == 5);
  CheckSound(figures);
}

TEST_CASE("snapshot measures what it writes on an idle machine alone, too", "[bench]") {
  const SnapshotOptions options{.state_mib = 24, .every_steps = 16, .snapshots = 1, .rounds = 1};
  CHECK(Named(FiguresOf(PlanSnapshot(options), "snapshot/write-idle"), "snapshot/write-idle").has_limit());
}

TEST_CASE("push-pull gives throughput, cost, requests and a round trip, over tcp and ipc, on one shard and on two",
          "[bench]") {
  const std::vector<Figure> figures =
      FiguresOf(PlanPushPull({.tensor_bytes = {64u << 10}, .rounds = 1, .seconds = 0.05}));
  CheckSound(figures);
  for (const char* at : {"tcp/1s1w", "tcp/2s2w", "ipc/1s1w", "ipc/2s2w"}) {
    const std::string name = std::string("push-pull/") + at + "/64-kib/";
    CHECK(Named(figures, name + "throughput").has_limit());
    CHECK(Named(figures, name + "throughput-bare").has_limit());
    CHECK(Named(figures, name + "cpu").has_limit());
    CHECK(Named(figures, name + "requests").unit == "1/s");
  }
  for (const char* row : {"round-trip", "round-trip-p99"}) {
    const Figure& figure = Named(figures, std::string("push-pull/tcp/1s1w/64-b/") + row);
    CHECK(figure.unit == "us");
    CHECK(figure.has_limit());
  }
}

TEST_CASE("push-pull has parameters for each of two servers, however small its tensors are", "[bench]") {
  const std::vector<Figure> figures = FiguresOf(
      PlanPushPull({.carriers = {Carrier::kTcp}, .sizes = {2}, .tensor_bytes = {64}, .rounds = 1, .seconds = 0.05}));
  CheckSound(figures);
  CHECK(Named(figures, "push-pull/tcp/2s2w/64-b/throughput").has_limit());
}

TEST_CASE("push-pull measures the rows that it is asked for, and says which there are", "[bench]") {
  const PushPullOptions options{.tensor_bytes = {64u << 10}, .rounds = 1, .seconds = 0.02};
  const std::vector<Figure> figures = FiguresOf(PlanPushPull(options), "ipc/1s1w/64-kib");
  CHECK(figures.size() == 5);
  for (const Figure& figure : figures) {
    CHECK_THAT(figure.name, Catch::Matchers::Contains("push-pull/ipc/1s1w/64-kib/"));
  }
  CHECK_THAT(Measure(PlanPushPull(options), {.only = "icp"}).status().message(),
             Catch::Matchers::Contains("push-pull/ipc/1s1w/64-b/round-trip"));
}

TEST_CASE("a shard keeps no less than the count by design per parameter", "[bench]") {
  const std::vector<Figure> figures = FiguresOf(PlanMemory({.model_mib = 32, .steps = 3, .rounds = 1}));
  CheckSound(figures);
  CHECK(Named(figures, "memory/shard/adamw").Ratio().least > 0.99);
  CHECK(Named(figures, "memory/worker").Ratio().least > 0.99);
}

TEST_CASE("scale gives each cost at each size, and the exponent that it grows with", "[bench]") {
  const ScaleOptions options{.sizes = {{2, 1}, {8, 4}}, .seconds = 1e-4, .rounds = 1};
  const std::vector<Figure> figures = FiguresOf(PlanScale(options));
  CHECK(figures.size() % 3 == 0);
  for (const Figure& figure : figures) {
    INFO(figure.name);
    CHECK(std::isfinite(figure.Value().median));
    CHECK((figure.Value().least > 0.0 || figure.name.ends_with("/growth")));
  }
  for (const char* core : {"coordinator/beat", "shard/push-sync", "session/coverage"}) {
    CHECK(Named(figures, std::string("scale/") + core + "/8w4s").unit == "us");
    Named(figures, std::string("scale/") + core + "/growth");
  }
  CHECK_THAT(Measure(PlanScale(options), {.only = "beta"}).status().message(),
             Catch::Matchers::Contains("scale/coordinator/beat"));
}

TEST_CASE("the growth of a cost needs all sizes, and a cost at one size only that one", "[bench]") {
  const ScaleOptions options{.sizes = {{2, 1}, {8, 4}}, .seconds = 1e-4, .rounds = 1};
  CHECK(FiguresOf(PlanScale(options), "coordinator/beat/8w4s").size() == 1);
  CHECK(std::isfinite(FiguresOf(PlanScale(options), "coordinator/beat/growth").at(0).Value().median));
}

TEST_CASE("training gives a figure for both models, alone and as jobs", "[bench]") {
  Result<Plan> plan = PlanTraining({.rounds = 1, .seconds = 0.05, .beside = Beside::kNothing, .python = ""});
  REQUIRE(plan.ok());
  const std::vector<Figure> figures = FiguresOf(*std::move(plan));
  CheckSound(figures);
  CHECK(figures.size() == 12);
  for (const char* name : {"train/mlp/compute", "train/mlp/1s1w", "train/mlp/2s2w", "train/gpt/compute",
                           "train/gpt/1s1w", "train/gpt/2s2w", "train/mlp/1s1w-bf16", "train/gpt/compute-bf16"}) {
    Named(figures, name);
  }
}

TEST_CASE("training measures the rows that are asked for", "[bench]") {
  const TrainOptions options{.rounds = 1, .seconds = 0.05, .beside = Beside::kNothing, .python = ""};
  std::vector<std::string> names;
  for (const Figure& figure : FiguresOf(*PlanTraining(options), "mlp/compute")) names.push_back(figure.name);
  CHECK(names == std::vector<std::string>{"train/mlp/compute", "train/mlp/compute-bf16"});
  CHECK_THAT(Measure(*PlanTraining(options), {.only = "mpl"}).status().message(),
             Catch::Matchers::Contains("train/gpt/2s2w"));
}

TEST_CASE("a quick run measures some rows of the whole benchmark, and says what it leaves out", "[bench]") {
  for (const Bench& bench : AllBenches()) {
    INFO(bench.name);
    CHECK_FALSE(bench.left_out.empty());
    const Result<Plan> whole = bench.plan({}), quick = bench.plan({.extent = Extent::kQuick, .python = ""});
    if (whole.status().code() == Code::kUnsupported) continue;
    REQUIRE(whole.ok());
    REQUIRE(quick.ok());
    CHECK(quick->rounds >= 3);
    const std::vector<std::string> all = RowNamesOf(*whole), some = RowNamesOf(*quick);
    CHECK_FALSE(some.empty());
    for (const std::string& name : some) {
      INFO(name);
      CHECK(std::find(all.begin(), all.end(), name) != all.end());
    }
  }
}

}  // namespace
}  // namespace capstan::bench
