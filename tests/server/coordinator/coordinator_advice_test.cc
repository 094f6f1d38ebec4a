// The notices of a coordinator: idle workers and shards, work that is done twice, and the cost of a loss.
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/model_section.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_bench.h"

using namespace capstan;
using namespace capstan::server;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

// Does a step on one shard whose slots have these losses.
void StepWith(CoordinatorBench* bench, std::uint64_t step, const std::vector<double>& losses) {
  Prepared prepared = bench->MakePrepared(0, step);
  for (SlotReport& report : prepared.report.slots) report.loss_sum = losses.at(report.slot);
  bench->shards[0].hello.prepared = prepared;
  bench->Send(bench->shards[0].peer, prepared);
  const std::vector<Commit> commits = bench->TakeFromShard<Commit>(0);
  REQUIRE_FALSE(commits.empty());
  bench->Commits(0, commits.back());
}

// A running job of one shard and two slots.
class RunningBench : public CoordinatorBench {
 public:
  explicit RunningBench(std::uint32_t workers, ModelKind kind = ModelKind::kClient) : CoordinatorBench(1, workers) {
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
  RunningBench bench(2);
  const Join first = bench.MakeJoin("w0");
  StepWith(&bench, 0, {2.5, 2.5});
  CHECK_THAT(bench.Notices(), !Contains("equal"));
  StepWith(&bench, 1, {2.25, 2.25});
  CHECK_THAT(bench.Notices(),
             Contains("slots 0 and 1 of step 1 are equal: do \"w0\" and \"w1\" draw the same samples?") &&
                 Contains("take samples from slots()"));
  StepWith(&bench, 2, {2.0, 2.0});
  CHECK(Times(bench.Notices(), "are equal") == 1);
  bench.Send(bench.PeerOf(first), first);  // a repeated Join is answered with a view
  CHECK_THAT(bench.ViewOf(first).notice, Contains("slots 0 and 1 of step 1 are equal"));
}

TEST_CASE("equal slots of one worker, one step, a built-in model or a loss that stands still are no reason to warn",
          "[server][advice]") {
  {
    RunningBench bench(1);
    for (std::uint64_t step = 0; step < 4; ++step) StepWith(&bench, step, {2.5 - double(step), 2.5 - double(step)});
    CHECK_THAT(bench.Notices(), !Contains("are equal"));
  }
  {
    RunningBench bench(2, ModelKind::kMlp);  // capstan chooses its samples
    for (std::uint64_t step = 0; step < 4; ++step) StepWith(&bench, step, {2.5 - double(step), 2.5 - double(step)});
    CHECK_THAT(bench.Notices(), !Contains("are equal"));
  }
  RunningBench bench(2);
  StepWith(&bench, 0, {2.5, 2.5});
  StepWith(&bench, 1, {2.0, 2.25});
  StepWith(&bench, 2, {1.5, 1.5});
  StepWith(&bench, 3, {1.5, 1.5});
  StepWith(&bench, 4, {0.0, 0.0});
  StepWith(&bench, 5, {0.0, 0.0});
  CHECK_THAT(bench.Notices(), !Contains("are equal"));
}

TEST_CASE("a worker that no slot is left for is named once, and told", "[server][advice]") {
  RunningBench bench(2);
  const Join third = bench.Joins("w2");
  CHECK_THAT(bench.Notices(), Contains("\"w2\" has nothing to compute: other workers have the job's 2 slots"));
  CHECK_THAT(bench.ViewOf(third).notice, Contains("this worker has nothing to compute") && Contains("job.slots"));
  bench.Joins("w3");
  CHECK(Times(bench.Notices(), "\"w2\" has nothing to compute") == 1);
  CHECK(Times(bench.Notices(), "\"w3\" has nothing to compute") == 1);
  bench.Send(bench.PeerOf(third), bench.MakeLeave(third));
  CHECK(Times(bench.Notices(), "has nothing to compute") == 2);
}

TEST_CASE("shards that no block is left for are named when the model is known", "[server][advice]") {
  CoordinatorBench bench(4, 1);
  bench.Live();
  bench.ShardsEchoTerm();
  bench.Joins("w0");
  CHECK_THAT(bench.Notices(), Contains("server 2, server 3 hold no parameters: the model is 2 blocks, and there are 4 "
                                       "shards; set cluster.servers to 2"));
  CoordinatorBench enough(2, 1);
  enough.Live();
  enough.Joins("w0");
  CHECK_THAT(enough.Notices(), !Contains("no parameters"));
}

TEST_CASE("after a shard is lost the job says how long it took, and how many steps are done again",
          "[server][advice]") {
  RunningBench bench(2);
  CHECK_THAT(bench.Notices(), !Contains("recovered"));
  for (std::uint64_t step = 0; step < 3; ++step) bench.DoStep(step);
  bench.now += 600ms;
  bench.RestartShard(0, {});
  CHECK_THAT(bench.Notices(), Contains("every shard starts from step 0") && !Contains("recovered"));
  bench.AnswerReset(0);
  CHECK_THAT(bench.Notices(), Contains("recovered in 0.6 s, 3 steps will be done again"));
  bench.Forget();
  bench.RestartShard(0, {});
  bench.AnswerReset(0);
  CHECK_THAT(bench.Notices(), Contains("no step will be done again"));
}

TEST_CASE("a worker's name with control bytes is refused, and the refusal shows none", "[server][advice]") {
  CoordinatorBench bench(1, 1);
  bench.Live();
  const Join join = bench.Joins("w\x1B[31m\n0");
  CHECK_THAT(bench.Notices(), Contains("without control bytes, not \"w\\x1B[31m\\x0A0\""));
  CHECK(bench.coordinator->worker_count() == 0);
}
