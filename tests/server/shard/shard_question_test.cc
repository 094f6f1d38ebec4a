// A shard's answers when a sender asks whether its messages arrived.
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/weights.h"
#include "server/shard/shard_memory.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

Staged Ask(ShardHarness* harness, std::uint64_t step, std::vector<StagedNode> nodes, std::uint64_t question = 9) {
  harness->Forget();
  harness->FromWorker(CoverageQuery{harness->generation, Incarnation{7}, SessionId{1}, Step{step}, question, nodes});
  const std::vector<Staged> answers = harness->Take<Staged>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].answers == question);
  CHECK(!answers[0].full);
  return answers[0];
}

TEST_CASE("an answer names what is held and what is missing of the nodes asked for", "[server][question]") {
  ShardHarness harness({.slots = 2, .tensors = {4, 4}});
  harness.Start().Stage(0, 1, kLeaf0, 1, 1.0F);
  Staged answer = Ask(&harness, 0, {{1, kLeaf0}, {1, kLeaf1}, {0, kLeaf0}});
  CHECK(answer.nodes == std::vector<StagedNode>{{1, kLeaf0}});
  CHECK(answer.missing == std::vector<StagedNode>{{1, kLeaf1}, {0, kLeaf0}});
  CHECK(answer.present == Step{0});
  harness.CompleteStep(0, 1.0F);  // prepared: everything is still there
  answer = Ask(&harness, 0, {{1, kLeaf1}, {0, {0, 2}}});
  CHECK(answer.missing == std::vector<StagedNode>{{0, {0, 2}}});  // the root's children are added by the update
  harness.Commits(0);
  answer = Ask(&harness, 0, {{1, kLeaf1}});
  CHECK(answer.passed);
  CHECK(answer.missing.empty());
  CHECK(answer.present == Step{1});
  answer = Ask(&harness, 4, {{1, kLeaf1}, {77, kLeaf1}, {0, {7, 8}}});  // ahead of this shard; not its blocks and nodes
  CHECK(answer.missing == std::vector<StagedNode>{{1, kLeaf1}});
}

TEST_CASE("an answer says whether a pull of the same peer waits", "[server][question]") {
  ShardHarness harness({.slots = 1, .tensors = {4}});
  harness.Start();
  CHECK(!Ask(&harness, 0, {}).pull_waits);
  harness.FromWorker(harness.MakePull(1, {0}));
  harness.FromWorker(harness.MakePull(1, {0}), {}, kOther);
  CHECK(Ask(&harness, 1, {}).pull_waits);
  harness.CompleteStep(0, 1.0F);
  harness.Commits(0);
  CHECK(harness.Take<Weights>().size() == 1);
  CHECK(!Ask(&harness, 1, {}).pull_waits);
}

TEST_CASE("a pull of another version takes the place of one that waits", "[server][question]") {
  ShardHarness harness({.slots = 1, .tensors = {4}});
  harness.Start();
  harness.CompleteStep(0, 1.0F);
  harness.Commits(0);
  harness.FromWorker(harness.MakePull(2, {0}));
  CHECK(Ask(&harness, 1, {}).pull_waits);
  harness.FromWorker(harness.MakePull(1, {0}));  // back in step 1; its answer is lost
  CHECK(!Ask(&harness, 1, {}).pull_waits);
  CHECK(harness.metrics->waiting_pulls.value() == 0);
}

TEST_CASE("bounded: a worker that asks for the clocks waits for no weights", "[server][question]") {
  ShardHarnessOptions options{.slots = 2, .tensors = {4}};
  options.mode = Mode::kBounded;
  ShardHarness harness(options);
  harness.Start().FromWorker(harness.MakePull(1, {0}));
  CHECK(Ask(&harness, 1, {}).pull_waits);
  harness.FromWorker(CoverageQuery{harness.generation, Incarnation{7}, SessionId{1}, Step{1}});
  harness.Forget();  // the clocks: they may give it a slot that is further behind
  CHECK(!Ask(&harness, 1, {}).pull_waits);
  CHECK(harness.metrics->waiting_pulls.value() == 0);
}

TEST_CASE("a worker that goes back to a step waits for no weights", "[server][question]") {
  ShardHarness harness({.slots = 1, .tensors = {4}});
  harness.Start();
  harness.CompleteStep(0, 1.0F);
  harness.Commits(0);
  harness.FromWorker(harness.MakePull(2, {0}));
  CHECK(Ask(&harness, 1, {}).pull_waits);
  CHECK(harness.metrics->waiting_pulls.value() == 1);
  harness.FromWorker(CoverageQuery{harness.generation, Incarnation{7}, SessionId{1}, Step{1}});
  CHECK(!Ask(&harness, 1, {}).pull_waits);  // its next pull may be lost, and is then sent again
  CHECK(harness.metrics->waiting_pulls.value() == 0);
}

TEST_CASE("a question does not end what is sent ahead, and one for all that is held does", "[server][question]") {
  ShardHarness harness({.slots = 1, .tensors = {4, 4}});
  harness.Start();
  Pull pull = harness.MakePull(1, {0, 1});
  pull.speculative = {0, 1};
  pull.follows = true;
  harness.FromWorker(pull);
  Ask(&harness, 1, {});
  harness.Stage(0, 1, kLeaf0, 1, 1.0F);
  CHECK(harness.Take<Weights>().size() == 1);
  harness.Coverage(0);
  harness.Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.Take<Weights>().empty());
}

TEST_CASE("without global steps a push is missing until it is applied; one in flight to the log is neither",
          "[server][question][async]") {
  ShardHarness harness({.mode = Mode::kAsync, .slots = 2, .tensors = {4, 4}, .acknowledge = Acknowledge::kDurable});
  harness.Start();
  CHECK(Ask(&harness, 1, {{0, kLeaf1}}).missing.size() == 1);
  harness.HoldLog();
  harness.Stage(1, 0, kLeaf1, 1, 1.0F);
  Staged answer = Ask(&harness, 1, {{0, kLeaf1}, {1, kLeaf1}});
  CHECK(answer.nodes.empty());
  CHECK(answer.missing == std::vector<StagedNode>{{1, kLeaf1}});
  harness.LetLogGo();
  answer = Ask(&harness, 1, {{0, kLeaf1}, {1, kLeaf1}});
  CHECK(answer.nodes == std::vector<StagedNode>{{0, kLeaf1}});
}

TEST_CASE("without global steps the credit bounds what all workers have under way, and is in the account of memory",
          "[server][memory][async]") {
  ShardOptions options;
  options.job.mode = Mode::kAsync;
  options.job.aggregation = Aggregation::kNone;
  CHECK(AsyncCredit(options, 1) == 16);
  CHECK(AsyncCredit(options, 64) == 16);
  CHECK(AsyncCredit(options, 512) == 2);
  CHECK(AsyncCredit(options, 4096) == 1);
  CHECK(CountShardMemory(options, std::uint64_t{1} << 32, 64).window == std::uint64_t{1024} << 20);
  CHECK(CountShardMemory(options, std::uint64_t{1} << 32, 4096).window == std::uint64_t{4096} << 20);
  options.job = {};
  CHECK(CountShardMemory(options, std::uint64_t{1} << 32, 64).window == std::uint64_t{16} << 20);
  ShardHarness harness({.mode = Mode::kAsync, .slots = 512, .tensors = {4}});
  harness.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.Take<Staged>().at(0).credit == 2);
}

}  // namespace
}  // namespace capstan::server
