// Programs that read a job without computing for it: the coordinator's answers, and the arrays that a shard gives.
#include "common/config/job/job_section.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_bench.h"
#include "tests/server/shard/shard_bench.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;
constexpr PeerId kReader = CoordinatorBench::kStranger;

Beat BeatOf(std::uint64_t nonce) {
  Beat beat;
  beat.nonce = nonce;
  return beat;
}

TEST_CASE("a Join without a catalog is told the job's tensors once they are known", "[server][followers]") {
  CoordinatorBench bench;
  bench.Live();
  Join join = bench.MakeJoin("reader");
  join.catalog.clear();
  bench.Send(kReader, join);
  CHECK(bench.Take<View>(kReader).at(0).catalog.empty());
  bench.ShardsEchoTerm();
  bench.Joins("w0");
  bench.Send(kReader, join);
  const View view = bench.Take<View>(kReader).at(0);
  CHECK(view.catalog == CoordinatorBench::Tensors());
  CHECK(view.session == SessionId{});
  CHECK(bench.coordinator->worker_count() == 1);
  CHECK(bench.ViewOf(bench.MakeJoin("w0")).catalog.empty());  // the worker has declared them
}

TEST_CASE("a Beat without a session is answered with how far the job is, and is no worker's", "[server][followers]") {
  CoordinatorBench bench;
  bench.Run();
  bench.Send(kReader, BeatOf(5));
  const View view = bench.Take<View>(kReader).at(0);
  CHECK(view.phase == JobPhase::kRunning);
  CHECK(view.shards.size() == 2);
  CHECK(view.slots.empty());
  CHECK(view.job_file.empty());
  CHECK(view.catalog.empty());
  CHECK(bench.coordinator->worker_count() == 2);
  CHECK(bench.coordinator->follower_count() == 1);
}

TEST_CASE("a program that follows a job is remembered until it leaves or is silent for a lease",
          "[server][followers]") {
  CoordinatorBench bench;
  bench.Run();
  const Join w0 = bench.Joins("w0"), w1 = bench.Joins("w1");
  bench.Send(kReader, BeatOf(5));
  bench.Send(kReader, BeatOf(6));
  bench.Send(kReader, BeatOf(6));
  CHECK(bench.coordinator->follower_count() == 2);
  bench.Send(kReader, Leave{{}, 5, "enough"});
  CHECK(bench.coordinator->follower_count() == 1);
  bench.Pass(seconds(9), {w0, w1});
  CHECK(bench.coordinator->follower_count() == 1);
  bench.Pass(seconds(2), {w0, w1});
  CHECK(bench.coordinator->follower_count() == 0);
}

TEST_CASE("a program that follows a finished job is remembered however long its last snapshot takes",
          "[server][followers]") {
  CoordinatorBench bench;
  bench.config.job.steps = 1;
  bench.Run();
  const Join w0 = bench.Joins("w0"), w1 = bench.Joins("w1");
  bench.Send(kReader, BeatOf(5));
  bench.Send(kReader, BeatOf(6));
  bench.DoStep(0);
  REQUIRE(bench.coordinator->state() == Coordinator::State::kFinished);
  bench.Pass(seconds(30), {w0, w1});
  CHECK(bench.coordinator->follower_count() == 2);
  bench.Conclude();  // from now on the job's end waits for them, for one lease
  bench.Pass(seconds(5), {w0, w1});
  CHECK(bench.coordinator->follower_count() == 2);
  bench.Send(kReader, Leave{{}, 5, "enough"});
  CHECK(bench.coordinator->follower_count() == 1);
}

TEST_CASE("a finished job whose last step is lost forgets programs that are silent as before", "[server][followers]") {
  CoordinatorBench bench;
  bench.config.job.steps = 1;
  bench.Run();
  const Join w0 = bench.Joins("w0"), w1 = bench.Joins("w1");
  bench.Send(kReader, BeatOf(5));
  bench.DoStep(0);
  bench.Pass(seconds(30), {w0, w1});
  bench.RestartShard(1, {});
  REQUIRE(bench.coordinator->state() != Coordinator::State::kFinished);
  bench.Tick();
  CHECK(bench.coordinator->follower_count() == 0);
}

TEST_CASE("not more programs are remembered than the limit", "[server][followers]") {
  Followers followers;
  for (std::uint64_t nonce = 0; nonce < 2 * Followers::kFollowersMax; ++nonce) followers.Heard(nonce, seconds(1));
  CHECK(followers.size() == Followers::kFollowersMax);
  followers.Heard(0, seconds(5));
  followers.ForgetBefore(seconds(5));
  CHECK(followers.size() == 1);
}

// ---- a shard's answers ---------------------------------------------------------------------------------------------

TEST_CASE("a pull may be of the optimizer's state, of the same version as the weights", "[server][followers]") {
  ShardBench bench({.optimizer = OptimizerKind::kMomentum});
  bench.Start();
  for (std::uint64_t step : {0U, 1U}) {
    bench.CompleteStep(step, 1.0F);
    bench.Commits(step);
  }
  bench.Forget();
  Pull pull = bench.MakePull(2, {0, 2});
  pull.array = 1;
  bench.FromWorker(pull);
  const std::vector<Weights> states = bench.Take<Weights>();
  REQUIRE(states.size() == 2);
  for (std::size_t i : {0U, 1U}) {
    CHECK(states[i].array == 1);
    CHECK(states[i].version == Version{2});
    REQUIRE(bench.payloads[i].size == bench.SizeOf(states[i].block) * sizeof(float));
    CHECK(*reinterpret_cast<const float*>(bench.payloads[i].data) == 1.5F);  // 1, then 0.5 * 1 + 1
    CHECK(Hash64(bench.payloads[i].bytes()) == states[i].payload_hash);
  }
  pull.array = 2;
  bench.FromWorker(pull);
  CHECK(bench.Refused(Code::kInvalid));
}

TEST_CASE("a pull of state waits for its version as one of weights does", "[server][followers]") {
  ShardBench bench({.optimizer = OptimizerKind::kAdagrad});
  Pull pull = bench.Start().MakePull(1, {0});
  pull.array = 1;
  bench.FromWorker(pull);
  CHECK(bench.Silent());
  bench.CompleteStep(0, 2.0F);
  bench.Commits(0);
  CHECK(bench.Take<Weights>().at(0).array == 1);
  CHECK(*reinterpret_cast<const float*>(bench.payloads.back().data) == 4.0F);  // the sum of squares
  pull.array = UINT32_MAX;
  bench.FromWorker(pull);
  CHECK(bench.Take<Error>().at(0).code == Code::kInvalid);
}

TEST_CASE("async: state that was handed out stays as it was", "[server][followers]") {
  ShardBench bench({.mode = Mode::kAsync, .slots = 1, .tensors = {4}, .optimizer = OptimizerKind::kMomentum});
  bench.Start().Stage(1, 0, {0, 1}, 1, 1.0F);
  bench.Forget();
  Pull pull = bench.MakePull(0, {0});
  pull.array = 1;
  bench.FromWorker(pull);
  const Weights state = bench.Take<Weights>().at(0);
  bench.Stage(2, 0, {0, 1}, 1, 1.0F);
  CHECK(Hash64(bench.payloads.back().bytes()) == state.payload_hash);
  CHECK(*reinterpret_cast<const float*>(bench.payloads.front().data) == 1.0F);
}

}  // namespace
}  // namespace capstan::server
