// The notices of a coordinator: idle workers and shards, work that is done twice, and the cost of a loss.
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/model_section.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

using namespace capstan;
using namespace capstan::server;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

// Does a step on the only shard. `losses`: by slot.
void StepWith(CoordinatorHarness* harness, std::uint64_t step, const std::vector<double>& losses) {
  Prepared prepared = harness->MakePrepared(0, step);
  for (SlotReport& report : prepared.report.slots) report.loss_sum = losses.at(report.slot);
  harness->shards[0].hello.prepared = prepared;
  harness->Send(harness->shards[0].peer, prepared);
  const std::vector<Commit> commits = harness->TakeFromShard<Commit>(0);
  REQUIRE_FALSE(commits.empty());
  harness->Commits(0, commits.back());
}

// A running job of one shard and two slots.
class RunningHarness : public CoordinatorHarness {
 public:
  explicit RunningHarness(std::uint32_t workers, ModelKind kind = ModelKind::kClient) : CoordinatorHarness(1, workers) {
    config.job.steps = 100;
    config.model.kind = kind;
    Run();
  }
};

std::size_t Times(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != text.npos; at += word.size()) ++count;
  return count;
}

}  // namespace

TEST_CASE("two workers whose slots are equal in two steps are told once that they draw the same samples",
          "[server][advice]") {
  RunningHarness harness(2);
  const Join first = harness.MakeJoin("w0");
  StepWith(&harness, 0, {2.5, 2.5});
  CHECK_THAT(harness.Notices(), !Contains("equal"));
  StepWith(&harness, 1, {2.25, 2.25});
  CHECK_THAT(harness.Notices(),
             Contains("slots 0 and 1 of step 1 are equal: do \"w0\" and \"w1\" draw the same samples?") &&
                 Contains("take samples from slots()"));
  StepWith(&harness, 2, {2.0, 2.0});
  CHECK(Times(harness.Notices(), "are equal") == 1);
  harness.Send(harness.PeerOf(first), first);  // a repeated Join is answered with a view
  CHECK_THAT(harness.ViewOf(first).notice, Contains("slots 0 and 1 of step 1 are equal"));
}

TEST_CASE("equal slots of one worker, one step, a built-in model or a loss that stands still are no reason to warn",
          "[server][advice]") {
  {
    RunningHarness harness(1);
    for (std::uint64_t step = 0; step < 4; ++step) StepWith(&harness, step, {2.5 - double(step), 2.5 - double(step)});
    CHECK_THAT(harness.Notices(), !Contains("are equal"));
  }
  {
    RunningHarness harness(2, ModelKind::kMlp);  // capstan chooses its samples
    for (std::uint64_t step = 0; step < 4; ++step) StepWith(&harness, step, {2.5 - double(step), 2.5 - double(step)});
    CHECK_THAT(harness.Notices(), !Contains("are equal"));
  }
  RunningHarness harness(2);
  StepWith(&harness, 0, {2.5, 2.5});
  StepWith(&harness, 1, {2.0, 2.25});
  StepWith(&harness, 2, {1.5, 1.5});
  StepWith(&harness, 3, {1.5, 1.5});
  StepWith(&harness, 4, {0.0, 0.0});
  StepWith(&harness, 5, {0.0, 0.0});
  CHECK_THAT(harness.Notices(), !Contains("are equal"));
}

TEST_CASE("a worker that no slot is left for is named once, and told", "[server][advice]") {
  RunningHarness harness(2);
  const Join third = harness.Joins("w2");
  CHECK_THAT(harness.Notices(), Contains("\"w2\" has nothing to compute: other workers have the job's 2 slots"));
  CHECK_THAT(harness.ViewOf(third).notice, Contains("this worker has nothing to compute") && Contains("job.slots"));
  harness.Joins("w3");
  CHECK(Times(harness.Notices(), "\"w2\" has nothing to compute") == 1);
  CHECK(Times(harness.Notices(), "\"w3\" has nothing to compute") == 1);
  harness.Send(harness.PeerOf(third), harness.MakeLeave(third));
  CHECK(Times(harness.Notices(), "has nothing to compute") == 2);
}

TEST_CASE("shards that no block is left for are named when the model is known", "[server][advice]") {
  CoordinatorHarness harness(4, 1);
  harness.Live();
  harness.ShardsEchoTerm();
  harness.Joins("w0");
  CHECK_THAT(harness.Notices(),
             Contains("server 2, server 3 hold no parameters: the model is 2 blocks, and there are 4 "
                      "shards; set cluster.servers to 2"));
  CoordinatorHarness enough(2, 1);
  enough.Live();
  enough.Joins("w0");
  CHECK_THAT(enough.Notices(), !Contains("no parameters"));
}

TEST_CASE("after a shard is lost the job says how long it took, and how many steps are done again",
          "[server][advice]") {
  RunningHarness harness(2);
  CHECK_THAT(harness.Notices(), !Contains("recovered"));
  for (std::uint64_t step = 0; step < 3; ++step) harness.DoStep(step);
  harness.now += 600ms;
  harness.RestartShard(0, {});
  CHECK_THAT(harness.Notices(), Contains("every shard starts from step 0") && !Contains("recovered"));
  harness.AnswerReset(0);
  CHECK_THAT(harness.Notices(), Contains("recovered in 0.6 s, 3 steps will be done again"));
  harness.Forget();
  harness.RestartShard(0, {});
  harness.AnswerReset(0);
  CHECK_THAT(harness.Notices(), Contains("no step will be done again"));
}

TEST_CASE("a worker's name with control bytes is refused, and the refusal shows none", "[server][advice]") {
  CoordinatorHarness harness(1, 1);
  harness.Live();
  const Join join = harness.Joins("w\x1B[31m\n0");
  CHECK_THAT(harness.Notices(), Contains("or '-', not \"w\\x1B[31m\\x0A0\""));
  CHECK(harness.coordinator->worker_count() == 0);
}
