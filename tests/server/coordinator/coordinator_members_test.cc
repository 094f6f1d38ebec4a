// Which workers may join a job, and which slots each of them computes.
#include "common/config/job/cluster_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_address.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;
using State = Coordinator::State;
using Slots = std::vector<SlotIndex>;

TEST_CASE("a job starts when every shard has echoed the term and all workers have joined", "[server][coordinator]") {
  CoordinatorHarness harness;
  harness.Live();
  harness.SendHello(0);  // without a term
  harness.SendHello(1);
  CHECK(harness.TakeFromShard<Ping>(0).at(0).term == Term{1});
  CHECK(harness.TakeFromShard<Ping>(1).size() == 1);
  const Join w0 = harness.Joins("w0"), w1 = harness.Joins("w1");
  CHECK(harness.Count<Reset>() == 0);
  harness.shards[0].hello.term = harness.shards[1].hello.term = Term{1};
  harness.SendHello(0);
  CHECK(harness.Count<Reset>() == 0);
  CHECK(harness.ViewOf(w0).phase == JobPhase::kGathering);
  harness.SendHello(1);
  for (ShardIndex i : {0U, 1U}) {
    const Reset reset = harness.TakeFromShard<Reset>(i).at(0);
    CHECK(reset.term == Term{1});
    CHECK(reset.generation == Generation{1});
    CHECK(reset.incarnation == Incarnation{50 + i});
    CHECK(reset.snapshot.IsNone());
    CHECK(reset.slot_count == 2);
    CHECK(reset.catalog == CoordinatorHarness::Tensors());
    CHECK(reset.parameters.learning_rate == 0.5F);
  }
  CHECK(harness.Logged<RecoverRecord>().size() == 1);  // logged before the first Reset
  CHECK(harness.Logged<RunningRecord>().empty());
  harness.AnswerReset(0);
  CHECK(harness.coordinator->state() == State::kResetting);
  CHECK(harness.ViewOf(w0).phase != JobPhase::kRunning);
  harness.AnswerReset(1);
  CHECK(harness.coordinator->state() == State::kRunning);
  REQUIRE(harness.Logged<RunningRecord>().size() == 1);
  CHECK(harness.Logged<RunningRecord>()[0].incarnations == std::vector<Incarnation>{{50}, {51}});
  const View view = harness.ViewOf(w0);
  CHECK(view.phase == JobPhase::kRunning);
  CHECK(view.generation == Generation{1});
  CHECK(view.slots == Slots{0});
  CHECK(view.shards == std::vector<ShardAddress>{{0, {50}, "shard-0"}, {1, {51}, "shard-1"}});
  CHECK(harness.ViewOf(w1).slots == Slots{1});
}

TEST_CASE("a Reset is repeated to those who have not answered, and an answer from another life does not count",
          "[server][coordinator]") {
  CoordinatorHarness harness;
  harness.Live();
  harness.ShardsEchoTerm();
  harness.Joins("w0");
  harness.Joins("w1");
  harness.AnswerReset(0);
  harness.Forget();
  harness.Send(harness.shards[1].peer, ResetDone{1, Incarnation{49}, Generation{1}});
  harness.Send(harness.shards[1].peer, ResetDone{1, Incarnation{51}, Generation{2}});
  harness.Send(harness.shards[1].peer, ResetDone{7, Incarnation{51}, Generation{1}});
  CHECK(harness.coordinator->state() == State::kResetting);
  harness.Tick(seconds(1));
  CHECK(harness.TakeFromShard<Reset>(0).empty());
  CHECK(harness.TakeFromShard<Reset>(1).size() == 1);
  harness.AnswerReset(1);
  CHECK(harness.coordinator->state() == State::kRunning);
}

TEST_CASE("a snapshot that cannot be served fails the job and says on which server, and why", "[server][coordinator]") {
  CoordinatorHarness harness;
  harness.Live();
  harness.ShardsEchoTerm();
  const Join w0 = harness.Joins("w0");
  harness.Joins("w1");
  harness.Send(harness.shards[1].peer, ResetBad{1, Incarnation{51}, Generation{1}, "the disk is gone"});
  CHECK(harness.coordinator->state() == State::kFailed);
  CHECK(IsNamed(harness.coordinator->failure().message(), "server 1"));
  CHECK(IsNamed(harness.coordinator->failure().message(), "the disk is gone"));
  CHECK(harness.ViewOf(w0).phase == JobPhase::kFailed);
}

TEST_CASE("with min_workers the job starts after half the join limit", "[server][coordinator]") {
  CoordinatorHarness harness;
  harness.config.cluster.min_workers = 1;
  harness.config.limits.join = 20;
  harness.Live();
  harness.ShardsEchoTerm();
  const Join w0 = harness.Joins("w0");
  harness.Pass(seconds(9), {w0});
  CHECK(harness.coordinator->state() == State::kCollecting);
  harness.Pass(seconds(2), {w0});
  CHECK(harness.coordinator->state() == State::kResetting);
}

TEST_CASE("a worker that says which generation it is in is not told the shards' addresses again",
          "[server][coordinator]") {
  CoordinatorHarness harness;
  harness.Run();
  const Join w0 = harness.MakeJoin("w0");
  harness.Send(harness.PeerOf(w0), w0);  // as if the first answer was lost
  Heartbeat beat = harness.MakeHeartbeat(w0);
  harness.Send(harness.PeerOf(w0), beat);
  CHECK(harness.ViewOf(w0).shards.size() == 2);  // w0 has not entered the generation yet
  beat.generation = harness.coordinator->generation();
  harness.Send(harness.PeerOf(w0), beat);
  const View view = harness.ViewOf(w0);
  CHECK(view.generation == beat.generation);
  CHECK(view.phase == JobPhase::kRunning);
  CHECK(view.shards.empty());
  harness.RestartShard(1, {});
  for (ShardIndex i : {0U, 1U}) harness.AnswerReset(i);
  CHECK(harness.ViewOf(w0).shards.size() == 2);  // for another generation, with another incarnation of shard 1
}

TEST_CASE("a worker that joins is told its slots, and of the others only those whose slots move", "[server][join]") {
  CoordinatorHarness harness(1, 2);
  harness.Run();
  harness.Joins("w2");
  CHECK(harness.Count<View>() == 1);
  const Join w1 = harness.MakeJoin("w1");
  harness.Send(harness.PeerOf(w1), w1);
  const Leave leave = harness.MakeLeave(w1);
  harness.Forget();
  harness.Send(harness.PeerOf(w1), leave);
  CHECK(harness.Count<View>() == 1);
  CHECK(harness.ViewOf(harness.MakeJoin("w2")).slots == Slots{1});
}

TEST_CASE("a Join without a catalog is given the job file and no session", "[server][join]") {
  CoordinatorHarness harness;
  harness.Live();
  Join join = harness.MakeJoin("w0");
  join.catalog.clear();
  harness.Send(CoordinatorHarness::PeerOf(join), join);
  const View view = harness.ViewOf(join);
  CHECK(view.job_file == PrintJobConfig(harness.config));
  CHECK(view.job == JobId{1, 2});
  CHECK(view.session == SessionId{0});
  CHECK(harness.coordinator->worker_count() == 0);
}

TEST_CASE("the roster has every member with its addresses, and what is no address of metrics is left out",
          "[server][join]") {
  CoordinatorHarness harness;
  harness.Live();
  CHECK(harness.coordinator->roster() == Roster{});
  harness.shards[1].hello.metrics = "10.0.0.7:9100";
  harness.SendHello(1);
  Join join = harness.MakeJoin("w0");
  join.metrics = "10.0.0.8:9101";
  harness.Send(CoordinatorHarness::PeerOf(join), join);
  Roster roster{{{1, "shard-1", "10.0.0.7:9100"}}, {{"w0", "10.0.0.8:9101"}}};
  CHECK(harness.coordinator->roster() == roster);
  for (const char* none : {"", "10.0.0.6", "http://10.0.0.6:1", "a b:1", "x\n:1", "10.0.0.6:99999"}) {
    CAPTURE(none);
    harness.shards[0].hello.metrics = none;
    harness.SendHello(0);
    join = harness.MakeJoin("w1", join.nonce + 1);
    join.metrics = none;
    harness.Send(CoordinatorHarness::PeerOf(join), join);
    CHECK(harness.coordinator->roster().shards.at(0) == Roster::Shard{0, "shard-0", ""});
    CHECK(harness.coordinator->roster().workers.at(1) == Roster::Worker{"w1", ""});
    harness.Send(CoordinatorHarness::PeerOf(join), harness.MakeLeave(join));
  }
  CHECK(harness.coordinator->roster().workers == roster.workers);
}

TEST_CASE("a repeated Join is the same session", "[server][join]") {
  CoordinatorHarness harness;
  harness.Run();
  const Join w0 = harness.Joins("w0");
  const SessionId session = harness.ViewOf(w0).session;
  harness.Joins("w0");
  CHECK(harness.ViewOf(w0).session == session);
  CHECK(harness.coordinator->worker_count() == 2);
  CHECK(harness.Logged<SessionRecord>().size() == 1);
}

TEST_CASE("a process takes the place of one of its name whose connection has ended", "[server][join]") {
  CoordinatorHarness harness;
  harness.Run();
  const Join before = harness.MakeJoin("w0", 1), w1 = harness.Joins("w1");
  const bool known = GENERATE(false, true);
  if (known) harness.Gone(CoordinatorHarness::PeerOf(before));
  harness.Forget();
  const Join next = harness.Joins("w0", 2);
  CHECK(IsNamed(harness.Notices(), "\"w0\" joined (2 of 2 workers)"));
  if (!known) {
    CHECK(harness.Take<View>(CoordinatorHarness::PeerOf(before)).size() == 1);  // is it there?
    harness.Gone(CoordinatorHarness::PeerOf(before));
  }
  CHECK(IsNamed(harness.Notices(), "\"w0\" has ended, and another process takes its place"));
  CHECK(harness.coordinator->worker_count() == 2);
  CHECK(harness.ViewOf(next).slots == Slots{0});
  CHECK(harness.Take<View>(CoordinatorHarness::PeerOf(w1)).empty());  // nothing has changed for the other worker
}

TEST_CASE("a name takes nothing from a living process: two of one name are two workers", "[server][join]") {
  CoordinatorHarness harness;
  harness.Run();
  const Join first = harness.Joins("w0");
  const Heartbeat beat = harness.MakeHeartbeat(first);
  const Join second = harness.Joins("w0", 2);
  harness.Send(CoordinatorHarness::PeerOf(first), beat);
  CHECK(IsNamed(harness.Notices(), "two processes are called \"w0\"; both take part, as two workers"));
  harness.Tick(std::chrono::milliseconds(100));
  CHECK(harness.Take<Error>(CoordinatorHarness::PeerOf(first)).empty());
  CHECK(harness.Take<Error>(CoordinatorHarness::PeerOf(second)).empty());
  CHECK(harness.coordinator->worker_count() == 3);
  CHECK(harness.ViewOf(first).slots == Slots{0});
  harness.Gone(CoordinatorHarness::PeerOf(first));  // a broken connection alone ends no worker
  CHECK(harness.coordinator->worker_count() == 3);
}

TEST_CASE("a process that joins again over its connection is one worker", "[server][join]") {
  CoordinatorHarness harness;
  harness.Run();
  const PeerId peer{4000};
  for (std::uint64_t nonce = 10; nonce < 30; ++nonce) {
    harness.Send(peer, harness.MakeJoin("w" + std::to_string(nonce % 3), nonce));
    CHECK(harness.coordinator->worker_count() == 3);
  }
  CHECK(harness.Logged<SessionRecord>().size() == 1);
}

TEST_CASE("sessions are never used twice, not even by a coordinator that is started again", "[server][join]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.Live();
  const Join w0 = harness.Joins("w0");
  REQUIRE(harness.Logged<SessionRecord>().size() == 2);  // one by each coordinator
  CHECK(harness.ViewOf(w0).session.value > harness.Logged<SessionRecord>()[0].session.value);
  CHECK(harness.coordinator->term() == Term{2});
}

TEST_CASE("a record of the log covers the sessions of many workers", "[server][join]") {
  CoordinatorHarness harness;
  harness.Run();
  std::uint64_t last = 0;
  for (int i = 0; i < 600; ++i) {
    const Join join = harness.MakeJoin("worker", 100 + static_cast<std::uint64_t>(i));
    harness.Send(CoordinatorHarness::PeerOf(join), join);
    const SessionId session = harness.ViewOf(join).session;
    REQUIRE(session.value > last);
    last = session.value;
    REQUIRE(harness.Logged<SessionRecord>().back().session.value >= last);
  }
  CHECK(harness.Logged<SessionRecord>().size() == 3);
}

TEST_CASE("a Heartbeat of an unknown session is stale; of a known one it is answered with the view", "[server][beat]") {
  CoordinatorHarness harness;
  harness.Run();
  const Join w0 = harness.Joins("w0");
  const Heartbeat beat = harness.MakeHeartbeat(w0);
  harness.Send(CoordinatorHarness::PeerOf(w0), beat);
  CHECK(harness.ViewOf(w0).phase == JobPhase::kRunning);
  Heartbeat wrong = beat;
  wrong.session = SessionId{77};
  harness.Send(CoordinatorHarness::kStranger, wrong);
  CHECK(harness.Take<Error>(CoordinatorHarness::kStranger).at(0).code == Code::kStale);
  wrong = beat;
  wrong.nonce = 77;
  harness.Send(CoordinatorHarness::kStranger, wrong);
  CHECK(harness.Take<Error>(CoordinatorHarness::kStranger).at(0).code == Code::kStale);
}

TEST_CASE("a silent worker's slots move when its lease is over, and it may join again", "[server][lease]") {
  CoordinatorHarness harness;
  harness.Run();
  const Join w0 = harness.Joins("w0"), w1 = harness.Joins("w1");
  harness.MakeHeartbeat(w0);  // stores w0's session in the harness
  harness.Pass(seconds(9), {w1});
  CHECK(harness.coordinator->worker_count() == 2);
  harness.Pass(seconds(2), {w1});
  CHECK(harness.coordinator->worker_count() == 1);
  CHECK(harness.metrics->leases_lost.value() == 1);
  CHECK(IsNamed(harness.Notices(), "\"w0\""));
  CHECK(harness.ViewOf(w1).slots == Slots{0, 1});
  harness.Send(CoordinatorHarness::PeerOf(w0), harness.MakeHeartbeat(w0));
  CHECK(harness.Take<Error>(CoordinatorHarness::PeerOf(w0)).at(0).code == Code::kStale);
  harness.Joins("w0");
  CHECK(harness.ViewOf(w0).slots.size() == 1);
  CHECK(harness.ViewOf(w1).slots == Slots{0});
}

TEST_CASE("a pause of the coordinator costs nobody the lease, and no time of the job", "[server][lease]") {
  CoordinatorHarness harness;
  harness.config.limits.stall = 60;
  harness.Run();
  harness.Pass(seconds(1));
  harness.Tick(seconds(100));  // paused, then continued: messages that arrived meanwhile are not read yet
  CHECK(harness.coordinator->worker_count() == 2);
  CHECK(harness.coordinator->state() == State::kRunning);
  harness.Pass(seconds(11));
  CHECK(harness.coordinator->worker_count() == 0);
}

TEST_CASE("whoever leaves loses its slots at once", "[server][lease]") {
  CoordinatorHarness harness;
  harness.Run();
  const Join w0 = harness.Joins("w0"), w1 = harness.Joins("w1");
  Leave leave = harness.MakeLeave(w0);
  leave.nonce = 5;
  harness.Send(CoordinatorHarness::PeerOf(w0), leave);
  CHECK(harness.coordinator->worker_count() == 2);  // a Leave of another session has no effect
  harness.Send(CoordinatorHarness::PeerOf(w0), harness.MakeLeave(w0));
  CHECK(harness.ViewOf(w1).slots == Slots{0, 1});
  harness.Joins("w2");
  CHECK(harness.ViewOf(w1).slots == Slots{0});
}

}  // namespace
}  // namespace capstan::server
