// Hyper-parameters that come with pushes: which ones count, the error for others, and how long the shard keeps them.
#include "common/data/hyper_parameters.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/staged.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_bench.h"

namespace capstan::server {
namespace {

using Catch::Matchers::Contains;

// Returns the parameters of gradient descent with these rates, one for each group.
std::vector<HyperParameters> GroupRates(double first, double second) {
  return {{.learning_rate = first}, {.learning_rate = second}};
}

ShardBenchOptions Groups() { return {.slots = 2, .tensors = {4, 4}, .groups = 2}; }

ShardBenchOptions AsyncGroups() {
  ShardBenchOptions options = Groups();
  options.mode = Mode::kAsync;
  return options;
}

// Returns the text of the only answer, which must be an Error of kInvalid.
std::string Refusal(ShardBench* bench, PeerId to = ShardBench::kWorker) {
  const std::vector<Error> errors = bench->Take<Error>(to);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kInvalid);
  CHECK(bench->Silent());
  return errors[0].message;
}

TEST_CASE("each group's tensors are updated with its own hyper-parameters of the step", "[server][hyper]") {
  ShardBench bench(Groups());
  bench.Start().hyper = GroupRates(0.5, 2.0);
  bench.CompleteStep(0, 1.0F);
  bench.Commits(0);
  CHECK(bench.WeightOf(0) == -0.5F);
  CHECK(bench.WeightOf(1) == -2.0F);
  bench.hyper = GroupRates(1.0, 0.0);  // those of the step before are forgotten
  bench.CompleteStep(1, 1.0F);
  bench.Commits(1);
  CHECK(bench.WeightOf(0) == -1.5F);
  CHECK(bench.WeightOf(1) == -2.0F);
}

TEST_CASE("the first set of a step counts; another is invalid and names both slots, the group and the field",
          "[server][hyper]") {
  ShardBench bench(Groups());
  bench.Start().hyper = GroupRates(0.5, 2.0);
  bench.Stage(0, 0, kLeaf1, 0, 0.0F);  // a slot without samples brings its set too
  bench.Forget();
  bench.hyper = GroupRates(0.5, 2.5);
  bench.Stage(0, 1, kLeaf0, 1, 1.0F, kOther);
  const std::string text = Refusal(&bench, kOther);
  CHECK_THAT(text, Contains("step 0: slot 0 came with learning_rate 2.5 of group 2, slot 1 before with 2;"));
  CHECK(bench.metrics->pushes_invalid.value() == 1);
  CHECK(bench.Coverage(0).held == std::vector<Staged::Entry>{{0, kLeaf1}});  // none of it was staged
  bench.Stage(0, 0, kLeaf1, 0, 0.0F);  // even a node that is already staged must not come with another set
  CHECK_THAT(Refusal(&bench), Contains("group 2"));
  bench.hyper = GroupRates(0.5, 2.0);
  bench.CompleteStep(0, 1.0F);
  bench.Commits(0);
  CHECK(bench.WeightOf(1) == -2.0F);
}

TEST_CASE("a node of several slots is named by all of them", "[server][hyper]") {
  ShardBench bench(Groups());
  bench.Start().hyper = GroupRates(0.5, 2.0);
  bench.Stage(0, 0, {0, 2}, 2, 1.0F);
  bench.Forget();
  bench.hyper[0].nesterov = true;
  bench.Stage(0, 1, kLeaf0, 1, 1.0F);
  CHECK_THAT(Refusal(&bench), Contains("slot 0 came with nesterov true of group 1, slots 0 to 1 before with false"));
}

TEST_CASE("Redo updates again with the set of the step", "[server][hyper]") {
  ShardBench bench(Groups());
  bench.Start().hyper = GroupRates(0.5, 2.0);
  bench.CompleteStep(0, 4.0F);
  bench.FromCoordinator(bench.MakeRedo(0, 1, 0.25F));
  bench.Commits(0, 1);
  CHECK(bench.WeightOf(0) == -0.5F);
  CHECK(bench.WeightOf(1) == -2.0F);
}

TEST_CASE("a new generation begins without a set", "[server][hyper]") {
  ShardBench bench(Groups());
  bench.Start().hyper = GroupRates(0.5, 2.0);
  bench.Stage(0, 0, kLeaf0, 1, 1.0F);
  bench.FromCoordinator(bench.MakeReset(2));
  bench.Forget();
  bench.generation = Generation{2};
  bench.hyper = GroupRates(1.0, 1.0);
  bench.CompleteStep(0, 1.0F);
  CHECK(bench.Take<Error>().empty());
  CHECK(bench.shard->engine().prepared());
}

TEST_CASE("what a shard prepared with is in its report, for the coordinator to compare", "[server][hyper]") {
  ShardBench bench(Groups());
  bench.Start().hyper = GroupRates(0.5, 2.0);
  bench.CompleteStep(0, 1.0F);
  const PrepareReport report = bench.Take<Prepared>(kCoordinator).at(0).report;
  CHECK(report.hyper_hash == HashOf(GroupRates(0.5, 2.0)));
  CHECK(report.learning_rate == 0.5);  // of the first group, for display
  ShardBench without({.slots = 1, .tensors = {4}});
  without.Start().CompleteStep(0, 1.0F);
  CHECK(without.Take<Prepared>(kCoordinator).at(0).report.hyper_hash == 0);
}

TEST_CASE("sets that the catalog or arithmetic does not allow are invalid", "[server][hyper]") {
  ShardBench bench(Groups());
  bench.Start().Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK_THAT(Refusal(&bench), Contains("of 0 groups, and the tensors are declared with 2"));
  bench.hyper = GroupRates(0.5, -1.0);
  bench.Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK_THAT(Refusal(&bench), Contains("group 2: learning_rate is -1"));
  ShardBench without;
  without.Start().hyper = GroupRates(0.5, 2.0);
  without.Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK_THAT(Refusal(&without), Contains("the job file owns them"));
}

TEST_CASE("async: every push is applied with its own set", "[server][hyper][async]") {
  ShardBench bench(AsyncGroups());
  bench.Start().hyper = GroupRates(0.5, 2.0);
  bench.Stage(1, 0, kLeaf0, 1, 1.0F);
  bench.hyper = GroupRates(4.0, 8.0);
  bench.Stage(1, 0, kLeaf1, 1, 1.0F);
  bench.Stage(1, 1, kLeaf0, 1, 1.0F);
  CHECK(bench.Take<Error>().empty());
  CHECK(bench.WeightOf(0) == -4.5F);
  CHECK(bench.WeightOf(1) == -8.0F);
}

TEST_CASE("durable: a logged push is found again with its set", "[server][hyper][durable]") {
  MemoryPushLog log;
  ShardBenchOptions options = AsyncGroups();
  options.acknowledge = Acknowledge::kDurable;
  options.optimizer = OptimizerKind::kAdamW;
  options.log = &log;
  std::uint64_t digest = 0;
  {
    ShardBench bench(options);
    bench.Start();
    for (std::uint64_t k = 1; k <= 4; ++k) {
      const double rate = 0.1 * static_cast<double>(k);
      bench.hyper = {{rate, 0.0, 0.9, 0.999, 1e-8, 0.1}, {2 * rate, 0.0, 0.5, 0.9, 1e-6, 0.0}};
      for (BlockIndex block : {0U, 1U}) bench.Stage(k, block, kLeaf0, 1, 0.5F);
    }
    digest = bench.shard->store().Digest();
  }
  const auto replay = [&](std::uint32_t groups) {
    options.groups = groups;
    auto bench = std::make_unique<ShardBench>(options);
    Reset reset = bench->MakeReset(2);
    reset.history = Generation{1};
    bench->FromCoordinator(reset);
    return bench;
  };
  CHECK(replay(2)->shard->store().Digest() == digest);
  // A log is not believed if its pushes have another number of groups than the job.
  const std::vector<ResetBad> bad = replay(1)->Take<ResetBad>(kCoordinator);
  REQUIRE(bad.size() == 1);
  CHECK_THAT(bad[0].reason, Contains("hyper-parameters of 2 groups, the job's tensors are of 1"));
}

}  // namespace
}  // namespace capstan::server
