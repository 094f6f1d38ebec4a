// Which workers may join a job, and which slots each of them computes.
#include "common/base/utf8.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
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

using Catch::Matchers::Contains;
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
    CHECK_THAT(harness.coordinator->StatusJson(harness.now), !Contains("10.0.0.6") && !Contains("x\\"));
    CHECK(harness.coordinator->roster().workers.at(1) == Roster::Worker{"w1", ""});
  }
  harness.Send(CoordinatorHarness::PeerOf(join), harness.MakeLeave(join));
  CHECK(harness.coordinator->roster().workers == roster.workers);
}

TEST_CASE("a worker that does not fit the job is refused, with both sides named", "[server][join]") {
  CoordinatorHarness harness;
  harness.Live();
  harness.Joins("w0");
  struct Bad {
    const char* words[2];
    void (*change)(Join*);
  };
  const Bad bad[] = {
      {{"b f32[3]", "b f32[2, 2]"}, [](Join* join) { join->catalog[1].shape = {3}; }},
      {{"1 tensors", "b f32[2, 2]"}, [](Join* join) { join->catalog.pop_back(); }},
      {{"other class", "\"class\""}, [](Join* join) { join->numeric_class = "other class"; }},
      {{"77", "(probe 3)"}, [](Join* join) { join->numeric_fingerprint = 77; }},
      {{"88", "(4)"}, [](Join* join) { join->data_fingerprint = 88; }},
      {{"another job", "--coordinator"},
       [](Join* join) {
         join->job = JobId{1, 3};
       }},
      {{"name", "64"}, [](Join* join) { join->worker.clear(); }},
      {{"name", "64"}, [](Join* join) { join->worker.assign(65, 'x'); }},
      {{"name", "letters, digits"}, [](Join* join) { join->worker = "two words"; }},
      {{"machine's name", "letters, digits"}, [](Join* join) { join->machine = "rack 1\n"; }},
      {{"numeric class", "512 bytes"}, [](Join* join) { join->numeric_class.assign(513, 'x'); }},
      {{"numeric class", "\\x1B"}, [](Join* join) { join->numeric_class = "class \x1B[2J"; }},
  };
  const PeerId peer{4000};
  for (const Bad& one : bad) {
    Join join = harness.MakeJoin("w1", 2);
    one.change(&join);
    harness.Send(peer, join);
    const std::vector<Error> errors = harness.Take<Error>(peer);
    REQUIRE(errors.size() == 1);
    INFO(errors[0].message);
    CHECK(errors[0].code == Code::kRefused);
    for (const char* word : one.words) CHECK(IsNamed(errors[0].message, word));
  }
  CHECK(harness.metrics->joins_refused.value() == std::size(bad));
  CHECK(harness.coordinator->worker_count() == 1);
  harness.Send(peer, harness.MakeJoin("w1", 2));
  CHECK(harness.coordinator->worker_count() == 2);
}

TEST_CASE("a worker's key has as many live sessions as its quota", "[server][join]") {
  CoordinatorHarness harness;
  harness.Live();
  harness.ShardsEchoTerm();
  Principal one{Role::kWorker, "", PublicKey{}}, other = one;
  one.sessions_max = 2;
  other.key->bytes[0] = 1;
  const auto joins = [&](const char* name, std::uint64_t nonce, const Principal& sender) {
    const Join join = harness.MakeJoin(name, nonce);
    harness.Send(CoordinatorHarness::PeerOf(join), join, sender);
    const std::vector<Error> errors = harness.Take<Error>(CoordinatorHarness::PeerOf(join));
    return errors.empty() ? "" : errors.front().message;
  };
  CHECK(joins("a", 1, one).empty());
  CHECK(joins("b", 2, one).empty());
  CHECK_THAT(joins("c", 3, one),
             Contains("worker \"c\": 2 workers of its key (worker of key 00000000) take part already"));
  CHECK_THAT(harness.out().audit.back().text, Contains("worker \"c\": 2 workers of its key"));
  CHECK(joins("c", 4, other).empty());
  CHECK(joins("a", 5, one).empty());        // in place of the first
  CHECK_FALSE(joins("c", 7, one).empty());  // in place of another key's worker
  CHECK(harness.coordinator->worker_count() == 3);
  harness.Send(CoordinatorHarness::PeerOf(harness.MakeJoin("b", 2)), harness.MakeLeave(harness.MakeJoin("b", 2)));
  CHECK(joins("d", 6, one).empty());
}

TEST_CASE("no text of a refused Join or Hello can leave its line of the log, or fill it", "[server][join]") {
  CoordinatorHarness harness;
  harness.Live();
  const Join w0 = harness.Joins("w0");
  const std::string bad = "\x1B]0;title\x07\n12:00:00.000 done: all steps are committed" + std::string(60000, 'A');
  void (*const changes[])(Join*, const std::string&) = {
      [](Join* join, const std::string& text) { join->worker = text; },
      [](Join* join, const std::string& text) {
        join->job = JobId{1, 3};
        join->worker = text;
      },
      [](Join* join, const std::string& text) { join->machine = text; },
      [](Join* join, const std::string& text) { join->numeric_class = text; },
      [](Join* join, const std::string& text) { join->catalog[0].name = text; },
  };
  for (const auto& change : changes) {
    Join join = harness.MakeJoin("w1", 2);
    change(&join, bad);
    harness.Send(PeerId{4000}, join);
  }
  Hello hello = harness.shards[0].hello;
  hello.endpoint = bad;
  harness.Send(PeerId{4001}, hello);
  Leave leave = harness.MakeLeave(w0);
  leave.reason = bad;
  harness.Send(CoordinatorHarness::PeerOf(w0), leave);
  REQUIRE(harness.out().notices.size() >= std::size(changes) + 2);
  for (const Notice& notice : harness.out().notices) {
    INFO(notice.text);
    CHECK(notice.text == PrintableLine(notice.text));
    CHECK(notice.text.size() < 1000);
  }
}

TEST_CASE("a first catalog with names that a log cannot show is refused", "[server][join]") {
  CoordinatorHarness harness;
  harness.Live();
  Join join = harness.MakeJoin("w0");
  join.catalog[0].name = "a\x1B[2J";
  harness.Send(CoordinatorHarness::PeerOf(join), join);
  const std::vector<Error> errors = harness.Take<Error>(CoordinatorHarness::PeerOf(join));
  REQUIRE(errors.size() == 1);
  CHECK(IsNamed(errors[0].message, "control bytes"));
  CHECK(harness.coordinator->catalog() == nullptr);
}

TEST_CASE("the first catalog that can be is the job's, and is logged before anything depends on it", "[server][join]") {
  CoordinatorHarness harness;
  harness.Live();
  Join join = harness.MakeJoin("w0");
  join.catalog[0].shape = {0};
  harness.Send(CoordinatorHarness::PeerOf(join), join);
  const std::vector<Error> errors = harness.Take<Error>(CoordinatorHarness::PeerOf(join));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kRefused);
  CHECK(IsNamed(errors[0].message, "\"a\""));
  CHECK(harness.coordinator->catalog() == nullptr);
  CHECK(harness.Logged<CatalogRecord>().empty());
  harness.Joins("w0");
  CHECK(harness.coordinator->catalog() != nullptr);
  REQUIRE(harness.Logged<CatalogRecord>().size() == 1);
  CHECK(harness.Logged<CatalogRecord>()[0].numeric_class == "class");
}

TEST_CASE("a repeated Join is the same session", "[server][join]") {
  CoordinatorHarness harness;
  harness.Run();
  const Join w0 = harness.Joins("w0");
  const SessionId session = harness.ViewOf(w0).session;
  harness.Joins("w0");
  CHECK(harness.ViewOf(w0).session == session);
  CHECK(harness.coordinator->worker_count() == 2);
}

TEST_CASE("a newer process of one name takes over, and the older one is told to end", "[server][join]") {
  CoordinatorHarness harness;
  harness.Run();
  const Join older = harness.MakeJoin("w0", 1);
  const Join newer = harness.Joins("w0", 2);
  const std::vector<Error> errors = harness.Take<Error>(CoordinatorHarness::PeerOf(older));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kRefused);
  CHECK(IsNamed(errors[0].message, "\"w0\""));
  CHECK(harness.coordinator->worker_count() == 2);
  CHECK(harness.ViewOf(newer).slots == Slots{0});
  Heartbeat beat = harness.MakeHeartbeat(newer);
  beat.nonce = older.nonce;
  harness.Send(CoordinatorHarness::PeerOf(older), beat);
  CHECK(harness.Take<Error>(CoordinatorHarness::PeerOf(older)).at(0).code == Code::kStale);
}

TEST_CASE("the id of a session is a secret that was drawn, and never 0", "[server][join]") {
  CoordinatorHarness harness;
  std::vector<std::uint64_t> secrets = {0x5EC2E7, 0};
  harness.draw_secret = [&] {
    const std::uint64_t secret = secrets.front();
    secrets.erase(secrets.begin());
    return secret;
  };
  harness.Live();
  CHECK(harness.ViewOf(harness.Joins("w0")).session == SessionId{0x5EC2E7});
  CHECK(harness.ViewOf(harness.Joins("w1")).session.value != 0);
}

TEST_CASE("slots follow the order in which workers joined, whatever ids their sessions have", "[server][join]") {
  CoordinatorHarness harness(1, 3);
  harness.config.job.slots = harness.config.job.global_batch = 3;
  std::uint64_t next = 1000;
  harness.draw_secret = [&] { return next -= 100; };
  harness.Live();
  harness.ShardsEchoTerm();
  const Join w2 = harness.Joins("w2"), w0 = harness.Joins("w0"), w1 = harness.Joins("w1");
  harness.AnswerReset(0);
  CHECK(harness.ViewOf(w2).slots == Slots{0});
  CHECK(harness.ViewOf(w0).slots == Slots{2});
  CHECK(harness.ViewOf(w1).slots == Slots{1});
}

TEST_CASE("a Join of a job that knows its tensors writes nothing to the log", "[server][join]") {
  CoordinatorHarness harness;
  harness.Run();
  const std::size_t before = harness.log.records().size();
  for (std::uint64_t i = 0; i < 600; ++i) {
    const Join join = harness.MakeJoin("worker", 100 + i);  // each takes over from the last
    harness.Send(CoordinatorHarness::PeerOf(join), join);
    REQUIRE(harness.ViewOf(join).session.value != 0);
  }
  CHECK(harness.log.records().size() == before);
}

TEST_CASE("a session of an earlier coordinator is unknown to the next one", "[server][join]") {
  CoordinatorHarness harness;
  harness.Run();
  const Join w0 = harness.MakeJoin("w0");
  harness.Send(CoordinatorHarness::PeerOf(w0), w0);
  const Heartbeat beat = harness.MakeHeartbeat(w0);
  harness.Live();
  harness.Send(CoordinatorHarness::PeerOf(w0), beat);
  CHECK(harness.Take<Error>(CoordinatorHarness::PeerOf(w0)).at(0).code == Code::kStale);
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

TEST_CASE("a pause of the coordinator is no silence of the shards", "[server][lease]") {
  CoordinatorHarness harness;
  harness.Run();
  const auto alive = [&] { return harness.metrics->shards[monitoring::MemberState::kAlive].value(); };
  harness.Tick(seconds(100));  // their messages that arrived meanwhile are not read yet
  CHECK(alive() == 2);
  harness.now += seconds(100);
  harness.SendHello(0);  // read before the Tick that finds the pause
  harness.Tick();
  harness.Pass(kShardSilence - seconds(1));
  CHECK(alive() == 2);
  harness.Pass(seconds(1));
  CHECK(alive() == 0);
}

TEST_CASE("whoever leaves, or is known to be dead, loses its slots at once", "[server][lease]") {
  CoordinatorHarness harness;
  harness.Run();
  const Join w0 = harness.Joins("w0"), w1 = harness.Joins("w1");
  Leave leave = harness.MakeLeave(w0);
  leave.nonce = 5;
  harness.Send(CoordinatorHarness::PeerOf(w0), leave);
  CHECK(harness.coordinator->worker_count() == 2);  // a Leave of another session has no effect
  harness.Send(CoordinatorHarness::PeerOf(w0), harness.MakeLeave(w0));
  CHECK(harness.ViewOf(w1).slots == Slots{0, 1});
  const Join w2 = harness.Joins("w2");
  CHECK(harness.ViewOf(w1).slots == Slots{0});
  Outbox out;
  harness.coordinator->WorkerDied("w1", harness.now, &out);
  harness.coordinator->WorkerDied("nobody", harness.now, &out);
  CHECK(harness.coordinator->worker_count() == 1);
  harness.Send(CoordinatorHarness::PeerOf(w2), harness.MakeHeartbeat(w2));
  CHECK(harness.ViewOf(w2).slots == Slots{0, 1});
}

// ---- shards that send Hello -----------------------------------------------------------------------------------------

}  // namespace
}  // namespace capstan::server
