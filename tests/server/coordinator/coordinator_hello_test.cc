// Shards that say Hello: which process holds an index, and when another one takes it over.
#include "common/config/job/cluster_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_address.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_snapshot_steps.h"

namespace capstan::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = Coordinator::State;

constexpr PeerId kOther{4000};  // another process that claims the index of shard 1

// Returns the newest error sent to a peer since the last call; a default Error if there is none.
Error ErrorTo(CoordinatorHarness* harness, PeerId peer) {
  const std::vector<Error> errors = harness->Take<Error>(peer);
  return errors.empty() ? Error{} : errors.back();
}

// A job that runs, with two snapshots, and whose shards have just answered.
class RunningJob : public CoordinatorHarness {
 public:
  RunningJob() {
    config.job.steps = 40;
    config.snapshot = {2, 0, 2};
    Run();
    RunTo(this, 4);
    SendHello(0);
    SendHello(1);
    Forget();
  }
};

TEST_CASE("a shard that cannot belong to the job is refused, with the reason", "[server][hello]") {
  CoordinatorHarness harness;
  harness.accept_rollback = GENERATE(false, true);  // accepting a rollback makes no difference here
  const bool collecting = GENERATE(false, true);
  if (collecting) harness.Live();
  if (!collecting) harness.Run();
  const Term term = harness.coordinator->term();
  const Generation generation = harness.coordinator->generation();
  const Coordinator::State state = harness.coordinator->state();
  const PeerId peer{4000};
  constexpr std::uint64_t kAbsurd = (std::uint64_t{1} << 20) + 2;  // a generation above the highest that is accepted
  struct Bad {
    Code code;
    const char* word;
    void (*change)(Hello*);
  };
  const Bad bad[] = {
      {Code::kRefused, "--index", [](Hello* hello) { hello->shard = 2; }},
      {Code::kRefused, "--index", [](Hello* hello) { hello->shard = UINT32_MAX; }},
      {Code::kRefused, "job file", [](Hello* hello) { ++hello->config_hash; }},
      {Code::kRefused, "another job",
       [](Hello* hello) {
         hello->job = JobId{1, 3};
       }},
      {Code::kInvalid, "says term", [](Hello* hello) { hello->term = Term{std::uint64_t{1} << 48}; }},
      {Code::kInvalid, "says term", [](Hello* hello) { hello->term = Term{UINT64_MAX}; }},
      {Code::kInvalid, "says generation", [](Hello* hello) { hello->generation = Generation{kAbsurd}; }},
      {Code::kInvalid, "says generation",
       [](Hello* hello) { hello->newest_retained.generation = Generation{UINT64_MAX}; }},
      {Code::kInvalid, "says version", [](Hello* hello) { hello->version = Version{4}; }},
      {Code::kInvalid, "says version", [](Hello* hello) { hello->newest_retained.version = Version{4}; }},
      {Code::kInvalid, "says incarnation", [](Hello* hello) { hello->incarnation = Incarnation{UINT64_MAX}; }},
  };
  for (const Bad& one : bad) {
    Hello hello = harness.shards[1].hello;
    hello.incarnation = Incarnation{60};
    one.change(&hello);
    harness.Send(peer, hello);
    const std::vector<Error> errors = harness.Take<Error>(peer);
    INFO(one.word);
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].code == one.code);
    CHECK(IsNamed(errors[0].message, one.word));
  }
  CHECK(harness.coordinator->term() == term);
  CHECK(harness.coordinator->generation() == generation);
  CHECK(harness.coordinator->state() == state);
}

TEST_CASE("of two processes with one index the first keeps it while it answers, and the second is refused",
          "[server][hello]") {
  RunningJob harness;
  Hello second = harness.MakeNextHello(1, {Part(Id(1, 4), 1)});
  second.endpoint = "elsewhere";
  harness.now += milliseconds(10);
  harness.Send(kOther, second);
  CHECK(ErrorTo(&harness, kOther).code == Code::kBusy);
  CHECK(harness.TakeFromShard<Ping>(1).size() == 1);  // the first process is asked at once, and only once
  harness.Send(kOther, second);
  CHECK(harness.Count<Ping>() == 0);
  harness.now += milliseconds(1);
  harness.SendHello(1);
  harness.Tick(milliseconds(100));
  const Error refusal = ErrorTo(&harness, kOther);
  CHECK(refusal.code == Code::kRefused);
  CHECK(refusal.incarnation == second.incarnation);
  CHECK(IsNamed(refusal.message, "server 1 is already running at shard-1"));
  CHECK(harness.coordinator->generation() == Generation{1});
  CHECK(harness.coordinator->state() == State::kRunning);
  CHECK(harness.coordinator->shards().at(1).endpoint == "shard-1");
}

TEST_CASE("a process takes an index over as soon as the connection of the one before it has ended", "[server][hello]") {
  RunningJob harness;
  const Hello second = harness.MakeNextHello(1, {Part(Id(1, 4), 1)});
  SECTION("the end is found when the first process is asked") {
    harness.Send(kOther, second);
    CHECK(harness.coordinator->generation() == Generation{1});
    harness.Gone(harness.shards[1].peer);
    CHECK(harness.Take<Ping>(kOther).size() == 1);  // it is asked again, without a wait
  }
  SECTION("the end is known already") { harness.Gone(harness.shards[1].peer); }
  harness.Send(kOther, second);
  CHECK(harness.coordinator->generation() == Generation{2});
  CHECK(harness.Take<Reset>(kOther).at(0).incarnation == second.incarnation);
  CHECK(IsNamed(harness.Notices(), "server 1 was lost and came back"));
}

TEST_CASE("what a dead process sent before its end does not keep its index", "[server][hello]") {
  RunningJob harness;
  const Hello second = harness.MakeNextHello(1, {Part(Id(1, 4), 1)});
  harness.Send(kOther, second);
  harness.Gone(harness.shards[1].peer);
  harness.Forget();
  harness.now += milliseconds(1);
  harness.SendHello(1);                               // it was in the socket when the process died
  CHECK(harness.TakeFromShard<Ping>(1).size() == 1);  // has it connected again? this Ping finds out
  harness.Gone(harness.shards[1].peer);
  harness.Tick(milliseconds(100));
  CHECK(ErrorTo(&harness, kOther).code != Code::kRefused);
  harness.Send(kOther, second);
  CHECK(harness.coordinator->generation() == Generation{2});
}

TEST_CASE("a process that has connected again keeps its index", "[server][hello]") {
  RunningJob harness;
  harness.Gone(harness.shards[1].peer);
  CHECK(IsNamed(harness.coordinator->WaitingFor(harness.now), "server 1 at shard-1 (its connection has ended)"));
  harness.SendHello(1);
  CHECK(!IsNamed(harness.coordinator->WaitingFor(harness.now), "its connection has ended"));
  harness.now += milliseconds(1);
  harness.Send(kOther, harness.MakeNextHello(1, {Part(Id(1, 4), 1)}));
  CHECK(ErrorTo(&harness, kOther).code == Code::kBusy);
  CHECK(harness.coordinator->generation() == Generation{1});
}

TEST_CASE("a life belongs to one address", "[server][hello]") {
  RunningJob harness;
  const Hello copied = harness.shards[1].hello;
  harness.Send(CoordinatorHarness::kStranger, copied);
  harness.Pass(seconds(5));
  harness.Send(CoordinatorHarness::kStranger, copied);
  harness.Forget();
  harness.Pass(seconds(1));
  CHECK(harness.TakeFromShard<Ping>(1).size() == 1);
  CHECK(harness.Take<Ping>(CoordinatorHarness::kStranger).empty());
  CHECK(harness.coordinator->generation() == Generation{1});
}

TEST_CASE("a silent process loses its index to another one after a lease, and not before", "[server][hello]") {
  RunningJob harness;
  const Hello second = harness.MakeNextHello(1, {Part(Id(1, 4), 1)});
  harness.Send(kOther, second);
  harness.Pass(seconds(9));  // stopped, or cut off: its connection stands
  harness.Send(kOther, second);
  CHECK(harness.coordinator->generation() == Generation{1});
  CHECK(ErrorTo(&harness, kOther).code == Code::kBusy);
  SECTION("it answers in time") {
    harness.SendHello(1);
    harness.Pass(seconds(2));
    CHECK(ErrorTo(&harness, kOther).code == Code::kRefused);
  }
  SECTION("it does not") {
    harness.Pass(seconds(2));
    harness.Send(kOther, second);
    CHECK(harness.coordinator->generation() == Generation{2});
    CHECK(harness.Take<Reset>(kOther).at(0).incarnation == second.incarnation);
    harness.SendHello(1);  // it runs again: now it is the one that claims the index
    CHECK(harness.coordinator->shards().at(1).incarnation == second.incarnation);
  }
}

TEST_CASE("a pause of the coordinator is no silence of the process that holds an index", "[server][hello]") {
  RunningJob harness;
  harness.Pass(seconds(1));
  harness.Tick(seconds(100));
  harness.Send(kOther, harness.MakeNextHello(1, {Part(Id(1, 4), 1)}));
  CHECK(harness.coordinator->generation() == Generation{1});
}

TEST_CASE("a process without the snapshots of its index waits for the one that has them", "[server][hello]") {
  RunningJob harness;
  Hello bare = harness.MakeNextHello(1);
  bare.endpoint = "elsewhere";
  harness.Gone(harness.shards[1].peer);
  harness.Send(kOther, bare);
  CHECK(ErrorTo(&harness, kOther).code == Code::kBusy);
  harness.Pass(seconds(59));
  harness.Send(kOther, bare);
  CHECK(harness.coordinator->generation() == Generation{1});
  CHECK(harness.coordinator->state() == State::kRunning);
  CHECK(IsNamed(harness.coordinator->WaitingFor(harness.now),
                "server 1 with its snapshots (the process at elsewhere has none)"));
  SECTION("which comes back") {
    harness.RestartShard(1, {Part(Id(1, 2), 1)});  // with an older one, too
    CHECK(harness.coordinator->generation().value >= 2);
    CHECK(harness.coordinator->shards().at(1).endpoint == "shard-1");
    CHECK(harness.coordinator->state() == State::kResetting);
  }
  SECTION("which does not come back") {
    harness.Pass(seconds(2));
    harness.Send(kOther, bare);
    CHECK(harness.coordinator->shards().at(1).endpoint == "elsewhere");
    harness.Pass(seconds(2));
    CHECK(IsNamed(harness.coordinator->failure().message(), "no server has shard 1 of its 2"));
  }
}

TEST_CASE("a coordinator that begins waits a lease for the process that has the snapshots of an index",
          "[server][hello]") {
  RunningJob harness;
  for (ShardIndex shard : {0U, 1U}) harness.shards[shard].hello.parts = {Part(Id(1, 4), shard)};
  harness.Live();
  const Hello bare = harness.MakeNextHello(1);
  harness.Send(kOther, bare);
  harness.ShardsEchoTerm();
  CHECK(harness.coordinator->state() == State::kRunning);  // the living shards go on
  CHECK(harness.coordinator->shards().at(1).endpoint == "shard-1");
  harness.Live();
  harness.Send(kOther, bare);
  harness.Pass(seconds(11));
  harness.Send(kOther, bare);
  CHECK(harness.coordinator->WaitingFor(harness.now).find("with its snapshots") == std::string::npos);
}

TEST_CASE("a job without snapshots takes any process for an index that is free", "[server][hello]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.Gone(harness.shards[1].peer);
  harness.Send(kOther, harness.MakeNextHello(1));
  CHECK(harness.coordinator->generation() == Generation{2});
}

TEST_CASE("a process that never served an index leaves no number behind that keeps others from it", "[server][hello]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.Gone(harness.shards[1].peer);
  Hello high = harness.MakeNextHello(1);
  high.incarnation = Incarnation{std::uint64_t{1} << 52};
  harness.Send(kOther, high);  // it takes the free index, and carries out no Reset
  CHECK(harness.coordinator->shards().at(1).incarnation == high.incarnation);
  harness.Gone(kOther);
  harness.RestartShard(1, {});
  CHECK(harness.coordinator->shards().at(1).incarnation == harness.shards[1].hello.incarnation);
  for (ShardIndex shard : {0U, 1U}) harness.AnswerReset(shard);
  CHECK(harness.coordinator->state() == State::kRunning);
}

TEST_CASE("a late Hello of an earlier life is no new life", "[server][hello]") {
  CoordinatorHarness harness;
  harness.Run();
  Hello late = harness.shards[1].hello;
  late.incarnation = Incarnation{40};
  harness.Send(harness.shards[1].peer, late);
  harness.Pass(seconds(4));
  harness.Send(harness.shards[1].peer, late);
  harness.Gone(harness.shards[1].peer);
  harness.Send(kOther, late);
  CHECK(harness.coordinator->generation() == Generation{1});
  CHECK(harness.coordinator->shards().at(1).incarnation == Incarnation{51});
}

TEST_CASE("a shard whose clock is behind that of the life before is told so, and people are", "[server][hello]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.SendHello(1);
  Hello back = harness.MakeNextHello(1);  // its disk is lost, and its machine's clock is behind
  back.incarnation = Incarnation{40};
  back.endpoint = "elsewhere";
  harness.Gone(harness.shards[1].peer);
  harness.Send(kOther, back);
  CHECK(harness.Take<Error>(kOther).empty());  // it may be a late message of an earlier incarnation
  harness.Pass(seconds(4));
  harness.Send(kOther, back);
  const std::vector<Error> errors = harness.Take<Error>(kOther);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kRefused);
  CHECK(errors[0].incarnation == Incarnation{40});
  CHECK(IsNamed(errors[0].message, "server 1 at elsewhere"));
  CHECK(IsNamed(errors[0].message, "clock"));
  CHECK(IsNamed(harness.Notices(), errors[0].message));
  CHECK(harness.coordinator->generation() == Generation{1});
}

TEST_CASE("where a rollback is accepted, a shard raises the term once, and by no more than any job can have run",
          "[server][hello]") {
  RunningJob harness;
  for (ShardIndex shard : {0U, 1U}) {
    harness.shards[shard].hello = harness.MakeNextHello(shard, {Part(Id(1, 4), shard)});
  }
  harness.accept_rollback = true;
  harness.Live();
  Hello absurd = harness.shards[1].hello;
  absurd.term = Term{std::uint64_t{1} << 48};
  harness.Send(kOther, absurd);
  CHECK(harness.coordinator->term() == Term{2});
  CHECK(harness.Logged<TermRecord>().size() == 2);
  Hello newer = harness.shards[1].hello;
  for (std::uint64_t i = 0; i < 5; ++i) {
    newer.term = harness.coordinator->term().Next();
    harness.Send(kOther, newer);
  }
  CHECK(harness.Logged<TermRecord>().size() == 3);
  harness.Gone(kOther);
  harness.Pass(seconds(11));
  harness.ShardsEchoTerm();
  CHECK(harness.coordinator->state() == State::kResetting);
}

}  // namespace
}  // namespace capstan::server
