// Hyper-parameters that come with pushes: which ones count, the error for others, and how long the shard keeps them.
#include "common/data/hyper_parameters.h"
#include "common/wire/messages/disagreement.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/staged.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

using Catch::Matchers::Contains;

// Returns the parameters of gradient descent with these rates, one for each group.
std::vector<HyperParameters> GroupRates(double first, double second) {
  return {{.learning_rate = first}, {.learning_rate = second}};
}

ShardHarnessOptions Groups() { return {.slots = 2, .tensors = {4, 4}, .groups = 2}; }

ShardHarnessOptions AsyncGroups() {
  ShardHarnessOptions options = Groups();
  options.mode = Mode::kAsync;
  return options;
}

// Returns the text of the only answer, which must be an Error of this code.
std::string Refusal(ShardHarness* harness, Code code = Code::kInvalid) {
  const std::vector<Error> errors = harness->Take<Error>();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == code);
  CHECK(harness->Silent());
  return errors[0].message;
}

TEST_CASE("each group's tensors are updated with its own hyper-parameters of the step", "[server][hyper]") {
  ShardHarness harness(Groups());
  harness.Start().hyper = GroupRates(0.5, 2.0);
  harness.CompleteStep(0, 1.0F);
  harness.Commits(0);
  CHECK(harness.WeightOf(0) == -0.5F);
  CHECK(harness.WeightOf(1) == -2.0F);
  harness.hyper = GroupRates(1.0, 0.0);  // those of the step before are forgotten
  harness.CompleteStep(1, 1.0F);
  harness.Commits(1);
  CHECK(harness.WeightOf(0) == -1.5F);
  CHECK(harness.WeightOf(1) == -2.0F);
}

TEST_CASE("the set of a lent push that turns out to be damaged is not the step's", "[server][hyper]") {
  ShardHarnessOptions options = Groups();
  options.slots = 1;
  ShardHarness harness(options);
  harness.Start().hyper = GroupRates(0.5, 2.0);
  REQUIRE(harness.Lend(0, 1, kLeaf0, 1, 1.0F, true));
  CHECK(harness.Refused(Code::kCorrupt));
  harness.hyper = GroupRates(0.25, 4.0);
  REQUIRE(harness.Lend(0, 1, kLeaf0, 1, 1.0F));
  CHECK(harness.Take<Disagreement>(kCoordinator).empty());
  harness.Forget();
  REQUIRE(harness.Lend(0, 0, kLeaf0, 1, 1.0F, true));  // damaged, and not the first of the step
  CHECK(harness.Refused(Code::kCorrupt));
  harness.hyper = GroupRates(0.5, 2.0);
  REQUIRE(harness.Lend(0, 0, kLeaf0, 1, 1.0F));
  CHECK(harness.Take<Disagreement>(kCoordinator).size() == 1);
}

// Returns the only report of a disagreement to the coordinator.
Disagreement TakeDisagreement(ShardHarness* harness) {
  const std::vector<Disagreement> all = harness->Take<Disagreement>(kCoordinator);
  REQUIRE(all.size() == 1);
  return all[0];
}

TEST_CASE("the first set of a step counts; another is not taken, and the coordinator learns who brought both",
          "[server][hyper]") {
  ShardHarness harness(Groups());
  harness.Start().Tell({harness.MakeSession(1, "a"), harness.MakeSession(2, "b")});
  harness.hyper = GroupRates(0.5, 2.0);
  harness.Stage(0, 0, kLeaf1, 0, 0.0F);  // a slot without samples brings its set too
  harness.Forget();
  harness.hyper = GroupRates(0.5, 2.5);
  harness.session = SessionId{2};
  harness.Stage(0, 1, kLeaf0, 1, 1.0F);
  const Disagreement disagreement = TakeDisagreement(&harness);
  CHECK(disagreement.first == SessionId{1});
  CHECK(disagreement.second == SessionId{2});
  CHECK(disagreement.step == Step{0});
  const std::string text = Refusal(&harness, Code::kBusy);  // the worker may be the one that is right
  CHECK_THAT(text, Contains("step 0: slot 0 came with learning_rate 2.5 of group 2, slot 1 before with 2;"));
  CHECK(disagreement.what == text);
  REQUIRE(harness.notices().size() == 1);
  CHECK_THAT(harness.notices()[0].text, Contains("\"b\" disagrees with \"a\""));
  CHECK(harness.Coverage(0).nodes == std::vector<Staged::Entry>{{0, kLeaf1}});  // none of it was staged
  harness.Stage(0, 0, kLeaf1, 0, 0.0F);                     // a node that is staged already, with another set
  CHECK(harness.Take<Disagreement>(kCoordinator).empty());  // it is reported once in a step
  CHECK(harness.Take<Staged>().size() == 1);
  CHECK(harness.notices().empty());
  harness.session = SessionId{1};
  harness.hyper = GroupRates(0.5, 2.0);
  harness.CompleteStep(0, 1.0F);
  harness.Commits(0);
  CHECK(harness.WeightOf(1) == -2.0F);
}

TEST_CASE("a node of several slots is named by all of them", "[server][hyper]") {
  ShardHarness harness(Groups());
  harness.Start().hyper = GroupRates(0.5, 2.0);
  harness.Stage(0, 0, {0, 2}, 2, 1.0F);
  harness.Forget();
  harness.hyper[0].nesterov = true;
  harness.Stage(0, 1, kLeaf0, 1, 1.0F);
  CHECK_THAT(TakeDisagreement(&harness).what,
             Contains("slot 0 came with nesterov true of group 1, slots 0 to 1 before with false"));
}

TEST_CASE("Redo updates again with the set of the step", "[server][hyper]") {
  ShardHarness harness(Groups());
  harness.Start().hyper = GroupRates(0.5, 2.0);
  harness.CompleteStep(0, 4.0F);
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.25F));
  harness.Commits(0, 1);
  CHECK(harness.WeightOf(0) == -0.5F);
  CHECK(harness.WeightOf(1) == -2.0F);
}

TEST_CASE("a new generation begins without a set", "[server][hyper]") {
  ShardHarness harness(Groups());
  harness.Start().hyper = GroupRates(0.5, 2.0);
  harness.Stage(0, 0, kLeaf0, 1, 1.0F);
  harness.FromCoordinator(harness.MakeReset(2));
  harness.Forget();
  harness.generation = Generation{2};
  harness.hyper = GroupRates(1.0, 1.0);
  harness.CompleteStep(0, 1.0F);
  CHECK(harness.Take<Error>().empty());
  CHECK(harness.shard->engine().prepared());
}

TEST_CASE("what a shard prepared with is in its report, for the coordinator to compare", "[server][hyper]") {
  ShardHarness harness(Groups());
  harness.Start().hyper = GroupRates(0.5, 2.0);
  harness.CompleteStep(0, 1.0F);
  const PrepareReport report = harness.Take<Prepared>(kCoordinator).at(0).report;
  CHECK(report.hyper_hash == HashOf(GroupRates(0.5, 2.0)));
  CHECK(report.learning_rate == 0.5);  // of the first group, for display
  ShardHarness without({.slots = 1, .tensors = {4}});
  without.Start().CompleteStep(0, 1.0F);
  CHECK(without.Take<Prepared>(kCoordinator).at(0).report.hyper_hash == 0);
}

TEST_CASE("sets that the catalog or arithmetic does not allow are invalid", "[server][hyper]") {
  ShardHarness harness(Groups());
  harness.Start().Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK_THAT(Refusal(&harness), Contains("of 0 groups, and the tensors are declared with 2"));
  harness.hyper = GroupRates(0.5, -1.0);
  harness.Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK_THAT(Refusal(&harness), Contains("group 2: learning_rate is -1"));
  ShardHarness without;
  without.Start().hyper = GroupRates(0.5, 2.0);
  without.Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK_THAT(Refusal(&without), Contains("the job file owns them"));
}

TEST_CASE("async: every push is applied with its own set", "[server][hyper][async]") {
  ShardHarness harness(AsyncGroups());
  harness.Start().hyper = GroupRates(0.5, 2.0);
  harness.Stage(1, 0, kLeaf0, 1, 1.0F);
  harness.hyper = GroupRates(4.0, 8.0);
  harness.Stage(1, 0, kLeaf1, 1, 1.0F);
  harness.Stage(1, 1, kLeaf0, 1, 1.0F);
  CHECK(harness.Take<Error>().empty());
  CHECK(harness.WeightOf(0) == -4.5F);
  CHECK(harness.WeightOf(1) == -8.0F);
}

TEST_CASE("durable: a logged push is found again with its set", "[server][hyper][durable]") {
  MemoryPushLog log;
  ShardHarnessOptions options = AsyncGroups();
  options.acknowledge = Acknowledge::kDurable;
  options.optimizer = OptimizerKind::kAdamW;
  options.log = &log;
  std::uint64_t digest = 0;
  {
    ShardHarness harness(options);
    harness.Start();
    for (std::uint64_t k = 1; k <= 4; ++k) {
      const double rate = 0.1 * static_cast<double>(k);
      harness.hyper = {{rate, 0.0, 0.9, 0.999, 1e-8, 0.1}, {2 * rate, 0.0, 0.5, 0.9, 1e-6, 0.0}};
      for (BlockIndex block : {0U, 1U}) harness.Stage(k, block, kLeaf0, 1, 0.5F);
    }
    digest = harness.shard->store().Digest();
  }
  const auto replay = [&](std::uint32_t groups) {
    options.groups = groups;
    auto harness = std::make_unique<ShardHarness>(options);
    Reset reset = harness->MakeReset(2);
    reset.timeline = TimelineId{1};
    harness->FromCoordinator(reset);
    return harness;
  };
  CHECK(replay(2)->shard->store().Digest() == digest);
  // A log is not believed if its pushes have another number of groups than the job.
  const std::vector<ResetBad> bad = replay(1)->Take<ResetBad>(kCoordinator);
  REQUIRE(bad.size() == 1);
  CHECK_THAT(bad[0].reason, Contains("hyper-parameters of 2 groups, the job's tensors are of 1"));
}

}  // namespace
}  // namespace capstan::server
