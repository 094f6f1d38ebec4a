// Programs that read a job without computing for it: the coordinator's answers, and the arrays that a shard gives.
#include "common/config/job/job_section.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;
constexpr PeerId kReader = CoordinatorHarness::kStranger;

Heartbeat BeatOf(std::uint64_t nonce) {
  Heartbeat beat;
  beat.nonce = nonce;
  return beat;
}

TEST_CASE("a Join without a catalog is told the job's tensors once they are known", "[server][followers]") {
  CoordinatorHarness harness;
  harness.Live();
  Join join = harness.MakeJoin("reader");
  join.catalog.clear();
  harness.Send(kReader, join);
  CHECK(harness.Take<View>(kReader).at(0).catalog.empty());
  harness.ShardsEchoTerm();
  harness.Joins("w0");
  harness.Send(kReader, join);
  const View view = harness.Take<View>(kReader).at(0);
  CHECK(view.catalog == CoordinatorHarness::Tensors());
  CHECK(view.session == SessionId{});
  CHECK(harness.coordinator->worker_count() == 1);
  CHECK(harness.ViewOf(harness.MakeJoin("w0")).catalog.empty());  // the worker has declared them
}

TEST_CASE("a Heartbeat without a session is answered with how far the job is, and is no worker's",
          "[server][followers]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.Send(kReader, BeatOf(5));
  const View view = harness.Take<View>(kReader).at(0);
  CHECK(view.phase == JobPhase::kRunning);
  CHECK(view.shards.size() == 2);
  CHECK(view.slots.empty());
  CHECK(view.job_file.empty());
  CHECK(view.catalog.empty());
  CHECK(harness.coordinator->worker_count() == 2);
  CHECK(harness.coordinator->followers().size() == 1);
}

TEST_CASE("a program that follows a job is remembered until it leaves or is silent for a lease",
          "[server][followers]") {
  CoordinatorHarness harness;
  harness.Run();
  const Join w0 = harness.Joins("w0"), w1 = harness.Joins("w1");
  harness.Send(kReader, BeatOf(5));
  harness.Send(kReader, BeatOf(6));
  harness.Send(kReader, BeatOf(6));
  CHECK(harness.coordinator->followers().size() == 2);
  harness.Send(kReader, Leave{{}, 5, "enough"});
  CHECK(harness.coordinator->followers().size() == 1);
  harness.Pass(seconds(9), {w0, w1});
  CHECK(harness.coordinator->followers().size() == 1);
  harness.Pass(seconds(2), {w0, w1});
  CHECK(harness.coordinator->followers().size() == 0);
}

TEST_CASE("a program that follows a finished job is remembered however long its last snapshot takes",
          "[server][followers]") {
  CoordinatorHarness harness;
  harness.config.job.steps = 1;
  harness.Run();
  const Join w0 = harness.Joins("w0"), w1 = harness.Joins("w1");
  harness.Send(kReader, BeatOf(5));
  harness.Send(kReader, BeatOf(6));
  harness.DoStep(0);
  REQUIRE(harness.coordinator->state() == Coordinator::State::kFinished);
  harness.Pass(seconds(30), {w0, w1});
  CHECK(harness.coordinator->followers().size() == 2);
  harness.Conclude();  // from now on the job's end waits for them, for one lease
  harness.Pass(seconds(5), {w0, w1});
  CHECK(harness.coordinator->followers().size() == 2);
  harness.Send(kReader, Leave{{}, 5, "enough"});
  CHECK(harness.coordinator->followers().size() == 1);
}

TEST_CASE("a finished job whose last step is lost forgets programs that are silent as before", "[server][followers]") {
  CoordinatorHarness harness;
  harness.config.job.steps = 1;
  harness.Run();
  const Join w0 = harness.Joins("w0"), w1 = harness.Joins("w1");
  harness.Send(kReader, BeatOf(5));
  harness.DoStep(0);
  harness.Pass(seconds(30), {w0, w1});
  harness.RestartShard(1, {});
  REQUIRE(harness.coordinator->state() != Coordinator::State::kFinished);
  harness.Tick();
  CHECK(harness.coordinator->followers().size() == 0);
}

TEST_CASE("a coordinator that stood still forgets no program for it", "[server][followers]") {
  CoordinatorHarness harness;
  harness.Run();
  const Join w0 = harness.Joins("w0"), w1 = harness.Joins("w1");
  harness.Send(kReader, BeatOf(5));
  harness.Tick(seconds(30));  // much longer than a lease
  CHECK(harness.coordinator->followers().size() == 1);
  harness.now += seconds(30);
  harness.Send(kReader, BeatOf(5));  // arrived in a pause, and is read before its Tick
  harness.Tick();
  harness.Pass(seconds(11), {w0, w1});
  CHECK(harness.coordinator->followers().size() == 0);
}

TEST_CASE("not more programs are remembered than the limit", "[server][followers]") {
  Followers followers;
  for (std::uint64_t nonce = 0; nonce < 2 * Followers::kFollowersMax; ++nonce) followers.NoteMessage(nonce, seconds(1));
  CHECK(followers.size() == Followers::kFollowersMax);
  followers.NoteMessage(0, seconds(5));
  followers.ForgetBefore(seconds(5));
  CHECK(followers.size() == 1);
}

// ---- a shard's answers ---------------------------------------------------------------------------------------------

TEST_CASE("a pull may be of the optimizer's state, of the same version as the weights", "[server][followers]") {
  ShardHarness harness({.optimizer = OptimizerKind::kMomentum});
  harness.Start();
  for (std::uint64_t step : {0U, 1U}) {
    harness.CompleteStep(step, 1.0F);
    harness.Commits(step);
  }
  harness.Forget();
  Pull pull = harness.MakePull(2, {0, 2});
  pull.array = 1;
  harness.FromWorker(pull);
  const std::vector<Weights> states = harness.Take<Weights>();
  REQUIRE(states.size() == 2);
  for (std::size_t i : {0U, 1U}) {
    CHECK(states[i].array == 1);
    CHECK(states[i].version == Version{2});
    REQUIRE(harness.payloads[i].size == harness.SizeOf(states[i].block) * sizeof(float));
    CHECK(*reinterpret_cast<const float*>(harness.payloads[i].data) == 1.5F);  // 1, then 0.5 * 1 + 1
    CHECK(Hash64(harness.payloads[i].bytes()) == states[i].payload_hash);
  }
  pull.array = 2;
  harness.FromWorker(pull);
  CHECK(harness.Refused(Code::kInvalid));
}

TEST_CASE("a pull of state waits for its version as one of weights does", "[server][followers]") {
  ShardHarness harness({.optimizer = OptimizerKind::kAdagrad});
  Pull pull = harness.Start().MakePull(1, {0});
  pull.array = 1;
  harness.FromWorker(pull);
  CHECK(harness.Silent());
  harness.CompleteStep(0, 2.0F);
  harness.Commits(0);
  CHECK(harness.Take<Weights>().at(0).array == 1);
  CHECK(*reinterpret_cast<const float*>(harness.payloads.back().data) == 4.0F);  // the sum of squares
  pull.array = UINT32_MAX;
  harness.FromWorker(pull);
  CHECK(harness.Take<Error>().at(0).code == Code::kInvalid);
}

TEST_CASE("async: state that was handed out stays as it was", "[server][followers]") {
  ShardHarness harness({.mode = Mode::kAsync, .slots = 1, .tensors = {4}, .optimizer = OptimizerKind::kMomentum});
  harness.Start().Stage(1, 0, {0, 1}, 1, 1.0F);
  harness.Forget();
  Pull pull = harness.MakePull(0, {0});
  pull.array = 1;
  harness.FromWorker(pull);
  const Weights state = harness.Take<Weights>().at(0);
  harness.Stage(2, 0, {0, 1}, 1, 1.0F);
  CHECK(Hash64(harness.payloads.back().bytes()) == state.payload_hash);
  CHECK(*reinterpret_cast<const float*>(harness.payloads.front().data) == 1.0F);
}

}  // namespace
}  // namespace capstan::server
