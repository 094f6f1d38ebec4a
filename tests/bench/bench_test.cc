// Small runs of every benchmark: each runs and gives its figures. Few values are checked, because most depend on the
// machine.
#include <algorithm>
#include <cmath>
#include <string>
#include <thread>

#include "bench/allreduce_bench.h"
#include "bench/apply_bench.h"
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

void CheckSound(const std::vector<Figure>& figures) {
  for (const Figure& figure : figures) {
    INFO(figure.name);
    CHECK(figure.value > 0.0);
    CHECK(std::isfinite(figure.value));
    CHECK_FALSE(figure.unit.empty());
    CHECK(figure.limit >= 0.0);
    if (figure.limit > 0.0) {
      CHECK_FALSE(figure.limit_name.empty());
      CHECK(figure.ratio == Approx(figure.value / figure.limit));
    }
    const auto same = [&](const Figure& other) { return other.name == figure.name; };
    CHECK(std::count_if(figures.begin(), figures.end(), same) == 1);
  }
}

TEST_CASE("apply gives a figure for each optimizer, on one core and on all", "[bench]") {
  const std::vector<Figure> figures = MeasureApply({.model_mib = 2, .rounds = 1});
  const bool one_core = std::thread::hardware_concurrency() <= 1;
  REQUIRE(figures.size() == (one_core ? 6 : 12));
  CheckSound(figures);
}

TEST_CASE("all-reduce gives bus bandwidth beside Gloo's and that of plain sockets, and encrypted", "[bench]") {
  const Result<std::vector<Figure>> figures =
      MeasureAllReduce({.processes = {2, 3}, .bytes = {4u << 10, 1u << 20}, .repetitions = 1, .seconds = 0.01});
  if (figures.status().code() == Code::kUnsupported) {
    testing::ComparedWithNothing("all-reduce beside Gloo's and that of plain sockets", figures.status().message());
    return;
  }
  INFO(figures.status().message());
  REQUIRE(figures.ok());
  CHECK(figures->size() == 12);
  CheckSound(*figures);
  CHECK(Named(*figures, "allreduce/3p/1-mib").limit > 0.0);
  CHECK(Named(*figures, "allreduce/3p/1-mib/secure").limit > 0.0);
}

TEST_CASE("snapshot gives the speed of the disk, the slowest step beside the median one, and the memory it takes",
          "[bench]") {
  const Result<std::vector<Figure>> figures = MeasureSnapshot({.state_mib = 24, .every_steps = 8, .snapshots = 2});
  INFO((figures.ok() ? "" : figures.status().message()));
  REQUIRE(figures.ok());
  CHECK(figures->size() == 4);
  CheckSound(*figures);
}

TEST_CASE("push-pull gives throughput, cost, requests and a round trip, over tcp and ipc, on one shard and on two",
          "[bench]") {
  const Result<std::vector<Figure>> figures =
      MeasurePushPull({.tensor_bytes = {64u << 10}, .repetitions = 1, .seconds = 0.05});
  REQUIRE(figures.ok());
  CheckSound(*figures);
  for (const char* at : {"tcp/1s1w", "tcp/2s2w", "ipc/1s1w", "ipc/2s2w"}) {
    const std::string name = std::string("push-pull/") + at + "/64-kib/";
    CHECK(Named(*figures, name + "throughput").limit > 0.0);
    CHECK(Named(*figures, name + "throughput-bare").limit > 0.0);
    CHECK(Named(*figures, name + "cpu").limit > 0.0);
    CHECK(Named(*figures, name + "requests").unit == "1/s");
  }
  CHECK(Named(*figures, "push-pull/tcp/1s1w/64-b/round-trip").unit == "us");
  CHECK(Named(*figures, "push-pull/tcp/1s1w/64-kib/throughput-ps-lite").limit == 1.8);
}

TEST_CASE("push-pull measures the cases that it is asked for, and says which there are", "[bench]") {
  std::vector<std::string> told;
  PushPullOptions options{.tensor_bytes = {64u << 10}, .repetitions = 1, .seconds = 0.02};
  options.parts.only = "ipc/1s1w/64-kib";
  options.parts.measured = [&](const Figure& figure) { told.push_back(figure.name); };
  const Result<std::vector<Figure>> figures = MeasurePushPull(options);
  REQUIRE(figures.ok());
  REQUIRE_FALSE(figures->empty());
  CHECK(told.size() == figures->size());
  for (const Figure& figure : *figures)
    CHECK_THAT(figure.name, Catch::Matchers::Contains("push-pull/ipc/1s1w/64-kib/"));
  options.parts.only = "icp";
  CHECK_THAT(MeasurePushPull(options).status().message(),
             Catch::Matchers::Contains("push-pull/ipc/1s1w/64-b/round-trip"));
}

TEST_CASE("a shard keeps no less than the count by design per parameter", "[bench]") {
  const Result<std::vector<Figure>> figures = MeasureMemory({.model_mib = 32, .steps = 3});
  REQUIRE(figures.ok());
  CheckSound(*figures);
  CHECK(Named(*figures, "memory/shard/adamw").ratio > 0.99);
  CHECK(Named(*figures, "memory/worker").ratio > 0.99);
}

TEST_CASE("scale gives each cost at each size, and the exponent that it grows with", "[bench]") {
  const Result<std::vector<Figure>> figures =
      MeasureScale({.sizes = {{2, 1}, {8, 4}}, .seconds = 1e-4, .parts = {.only = "", .python = "", .measured = {}}});
  REQUIRE(figures.ok());
  CHECK(figures->size() % 3 == 0);
  for (const Figure& figure : *figures) {
    INFO(figure.name);
    CHECK(std::isfinite(figure.value));
    CHECK((figure.value > 0.0 || figure.name.ends_with("/growth")));
  }
  for (const char* core : {"coordinator/beat", "shard/push-sync", "session/coverage"}) {
    CHECK(Named(*figures, std::string("scale/") + core + "/8w4s").unit == "us");
    Named(*figures, std::string("scale/") + core + "/growth");
  }
  const ScaleOptions misspelt{.sizes = {}, .seconds = 0.0, .parts = {.only = "beta", .python = "", .measured = {}}};
  CHECK_THAT(MeasureScale(misspelt).status().message(), Catch::Matchers::Contains("scale/coordinator/beat"));
}

TEST_CASE("training gives a figure for both models, alone and as jobs", "[bench]") {
  const Result<std::vector<Figure>> figures =
      MeasureTraining({.repetitions = 1, .seconds = 0.05, .beside = Beside::kNothing});
  REQUIRE(figures.ok());
  CheckSound(*figures);
  for (const char* name : {"train/mlp/compute", "train/mlp/1s1w", "train/mlp/2s2w", "train/gpt/compute",
                           "train/gpt/1s1w", "train/gpt/2s2w", "train/mlp/1s1w-bf16", "train/gpt/compute-bf16"}) {
    Named(*figures, name);
  }
}

TEST_CASE("training measures the figures that are asked for, and says each as soon as it is there", "[bench]") {
  std::vector<std::string> said;
  TrainOptions options{.repetitions = 1, .seconds = 0.05, .beside = Beside::kNothing};
  options.parts.only = "mlp/compute";
  options.parts.measured = [&](const Figure& figure) { said.push_back(figure.name); };
  const Result<std::vector<Figure>> figures = MeasureTraining(options);
  REQUIRE(figures.ok());
  CHECK(figures->size() == 2);
  CHECK(said == std::vector<std::string>{"train/mlp/compute", "train/mlp/compute-bf16"});
  options.parts.only = "mpl";
  CHECK_THAT(MeasureTraining(options).status().message(), Catch::Matchers::Contains("train/gpt/2s2w"));
}

}  // namespace
}  // namespace capstan::bench
