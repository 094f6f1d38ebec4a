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
#include "tests/server/coordinator/coordinator_bench.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;
using State = Coordinator::State;
using Slots = std::vector<SlotIndex>;

TEST_CASE("a job starts when every shard has echoed the term and all workers have joined", "[server][coordinator]") {
  CoordinatorBench bench;
  bench.Live();
  bench.SayHello(0);  // of no term yet
  bench.SayHello(1);
  CHECK(bench.TakeFromShard<Ping>(0).at(0).term == Term{1});
  CHECK(bench.TakeFromShard<Ping>(1).size() == 1);
  const Join w0 = bench.Joins("w0"), w1 = bench.Joins("w1");
  CHECK(bench.Count<Reset>() == 0);
  bench.shards[0].hello.term = bench.shards[1].hello.term = Term{1};
  bench.SayHello(0);
  CHECK(bench.Count<Reset>() == 0);
  CHECK(bench.ViewOf(w0).phase == JobPhase::kGathering);
  bench.SayHello(1);
  for (ShardIndex i : {0U, 1U}) {
    const Reset reset = bench.TakeFromShard<Reset>(i).at(0);
    CHECK(reset.term == Term{1});
    CHECK(reset.generation == Generation{1});
    CHECK(reset.incarnation == Incarnation{50 + i});
    CHECK(reset.snapshot.IsNone());
    CHECK(reset.slot_count == 2);
    CHECK(reset.catalog == CoordinatorBench::Tensors());
    CHECK(reset.parameters.learning_rate == 0.5F);
  }
  CHECK(bench.Logged<RecoverRecord>().size() == 1);  // before the first Reset
  CHECK(bench.Logged<RunningRecord>().empty());
  bench.AnswerReset(0);
  CHECK(bench.coordinator->state() == State::kResetting);
  CHECK(bench.ViewOf(w0).phase != JobPhase::kRunning);
  bench.AnswerReset(1);
  CHECK(bench.coordinator->state() == State::kRunning);
  REQUIRE(bench.Logged<RunningRecord>().size() == 1);
  CHECK(bench.Logged<RunningRecord>()[0].incarnations == std::vector<Incarnation>{{50}, {51}});
  const View view = bench.ViewOf(w0);
  CHECK(view.phase == JobPhase::kRunning);
  CHECK(view.generation == Generation{1});
  CHECK(view.slots == Slots{0});
  CHECK(view.shards == std::vector<ShardAddress>{{0, {50}, "shard-0"}, {1, {51}, "shard-1"}});
  CHECK(bench.ViewOf(w1).slots == Slots{1});
}

TEST_CASE("a Reset is repeated to those who have not answered, and an answer from another life does not count",
          "[server][coordinator]") {
  CoordinatorBench bench;
  bench.Live();
  bench.ShardsEchoTerm();
  bench.Joins("w0");
  bench.Joins("w1");
  bench.AnswerReset(0);
  bench.Forget();
  bench.Send(bench.shards[1].peer, ResetDone{1, Incarnation{49}, Generation{1}});
  bench.Send(bench.shards[1].peer, ResetDone{1, Incarnation{51}, Generation{2}});
  bench.Send(bench.shards[1].peer, ResetDone{7, Incarnation{51}, Generation{1}});
  CHECK(bench.coordinator->state() == State::kResetting);
  bench.Tick(seconds(1));
  CHECK(bench.TakeFromShard<Reset>(0).empty());
  CHECK(bench.TakeFromShard<Reset>(1).size() == 1);
  bench.AnswerReset(1);
  CHECK(bench.coordinator->state() == State::kRunning);
}

TEST_CASE("a snapshot that cannot be served fails the job and says on which server, and why", "[server][coordinator]") {
  CoordinatorBench bench;
  bench.Live();
  bench.ShardsEchoTerm();
  const Join w0 = bench.Joins("w0");
  bench.Joins("w1");
  bench.Send(bench.shards[1].peer, ResetBad{1, Incarnation{51}, Generation{1}, "the disk is gone"});
  CHECK(bench.coordinator->state() == State::kFailed);
  CHECK(IsNamed(bench.coordinator->failure().message(), "server 1"));
  CHECK(IsNamed(bench.coordinator->failure().message(), "the disk is gone"));
  CHECK(bench.ViewOf(w0).phase == JobPhase::kFailed);
}

TEST_CASE("with min_workers the job starts after half the join limit", "[server][coordinator]") {
  CoordinatorBench bench;
  bench.config.cluster.min_workers = 1;
  bench.config.limits.join = 20;
  bench.Live();
  bench.ShardsEchoTerm();
  const Join w0 = bench.Joins("w0");
  bench.Pass(seconds(9), {w0});
  CHECK(bench.coordinator->state() == State::kCollecting);
  bench.Pass(seconds(2), {w0});
  CHECK(bench.coordinator->state() == State::kResetting);
}

TEST_CASE("a worker that says which generation it is in is not told the shards' addresses again",
          "[server][coordinator]") {
  CoordinatorBench bench;
  bench.Run();
  const Join w0 = bench.MakeJoin("w0");
  bench.Send(bench.PeerOf(w0), w0);  // perhaps its answer was lost
  Beat beat = bench.MakeBeat(w0);
  bench.Send(bench.PeerOf(w0), beat);
  CHECK(bench.ViewOf(w0).shards.size() == 2);  // it has not entered the generation yet
  beat.generation = bench.coordinator->generation();
  bench.Send(bench.PeerOf(w0), beat);
  const View view = bench.ViewOf(w0);
  CHECK(view.generation == beat.generation);
  CHECK(view.phase == JobPhase::kRunning);
  CHECK(view.shards.empty());
  bench.RestartShard(1, {});
  for (ShardIndex i : {0U, 1U}) bench.AnswerReset(i);
  CHECK(bench.ViewOf(w0).shards.size() == 2);  // for another generation, with another incarnation of shard 1
}

TEST_CASE("a worker that joins is told its slots, and of the others only those whose slots move", "[server][join]") {
  CoordinatorBench bench(1, 2);
  bench.Run();
  bench.Joins("w2");
  CHECK(bench.Count<View>() == 1);
  const Join w1 = bench.MakeJoin("w1");
  bench.Send(bench.PeerOf(w1), w1);
  const Leave leave = bench.MakeLeave(w1);
  bench.Forget();
  bench.Send(bench.PeerOf(w1), leave);
  CHECK(bench.Count<View>() == 1);
  CHECK(bench.ViewOf(bench.MakeJoin("w2")).slots == Slots{1});
}

TEST_CASE("a Join without a catalog is given the job file and no session", "[server][join]") {
  CoordinatorBench bench;
  bench.Live();
  Join join = bench.MakeJoin("w0");
  join.catalog.clear();
  bench.Send(CoordinatorBench::PeerOf(join), join);
  const View view = bench.ViewOf(join);
  CHECK(view.job_file == PrintJobConfig(bench.config));
  CHECK(view.job == JobId{1, 2});
  CHECK(view.session == SessionId{0});
  CHECK(bench.coordinator->worker_count() == 0);
}

TEST_CASE("the roster has every member with its addresses, and what is no address of metrics is left out",
          "[server][join]") {
  CoordinatorBench bench;
  bench.Live();
  CHECK(bench.coordinator->roster() == Roster{});
  bench.shards[1].hello.metrics = "10.0.0.7:9100";
  bench.SayHello(1);
  Join join = bench.MakeJoin("w0");
  join.metrics = "10.0.0.8:9101";
  bench.Send(CoordinatorBench::PeerOf(join), join);
  Roster roster{{{1, "shard-1", "10.0.0.7:9100"}}, {{"w0", "10.0.0.8:9101"}}};
  CHECK(bench.coordinator->roster() == roster);
  for (const char* none : {"", "10.0.0.6", "http://10.0.0.6:1", "a b:1", "x\n:1", "10.0.0.6:99999"}) {
    CAPTURE(none);
    bench.shards[0].hello.metrics = none;
    bench.SayHello(0);
    join = bench.MakeJoin("w1", join.nonce + 1);
    join.metrics = none;
    bench.Send(CoordinatorBench::PeerOf(join), join);
    CHECK(bench.coordinator->roster().shards.at(0) == Roster::Shard{0, "shard-0", ""});
    CHECK(bench.coordinator->roster().workers.at(1) == Roster::Worker{"w1", ""});
  }
  bench.Send(CoordinatorBench::PeerOf(join), bench.MakeLeave(join));
  CHECK(bench.coordinator->roster().workers == roster.workers);
}

TEST_CASE("a worker that does not fit the job is refused, with both sides named", "[server][join]") {
  CoordinatorBench bench;
  bench.Live();
  bench.Joins("w0");
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
      {{"name", "128"}, [](Join* join) { join->worker.clear(); }},
      {{"name", "128"}, [](Join* join) { join->worker.assign(129, 'x'); }},
  };
  const PeerId peer{4000};
  for (const Bad& one : bad) {
    Join join = bench.MakeJoin("w1", 2);
    one.change(&join);
    bench.Send(peer, join);
    const std::vector<Error> errors = bench.Take<Error>(peer);
    REQUIRE(errors.size() == 1);
    INFO(errors[0].message);
    CHECK(errors[0].code == Code::kRefused);
    for (const char* word : one.words) CHECK(IsNamed(errors[0].message, word));
  }
  CHECK(bench.metrics->joins_refused.value() == std::size(bad));
  CHECK(bench.coordinator->worker_count() == 1);
  CHECK(bench.Logged<SessionRecord>().size() == 1);
  bench.Send(peer, bench.MakeJoin("w1", 2));
  CHECK(bench.coordinator->worker_count() == 2);
}

TEST_CASE("the first catalog that can be is the job's, and is logged before anything depends on it", "[server][join]") {
  CoordinatorBench bench;
  bench.Live();
  Join join = bench.MakeJoin("w0");
  join.catalog[0].shape = {0};
  bench.Send(CoordinatorBench::PeerOf(join), join);
  const std::vector<Error> errors = bench.Take<Error>(CoordinatorBench::PeerOf(join));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kRefused);
  CHECK(IsNamed(errors[0].message, "\"a\""));
  CHECK(bench.coordinator->catalog() == nullptr);
  CHECK(bench.Logged<CatalogRecord>().empty());
  bench.Joins("w0");
  CHECK(bench.coordinator->catalog() != nullptr);
  REQUIRE(bench.Logged<CatalogRecord>().size() == 1);
  CHECK(bench.Logged<CatalogRecord>()[0].numeric_class == "class");
  CHECK(bench.Logged<SessionRecord>().size() == 1);
}

TEST_CASE("a repeated Join is the same session", "[server][join]") {
  CoordinatorBench bench;
  bench.Run();
  const Join w0 = bench.Joins("w0");
  const SessionId session = bench.ViewOf(w0).session;
  bench.Joins("w0");
  CHECK(bench.ViewOf(w0).session == session);
  CHECK(bench.coordinator->worker_count() == 2);
  CHECK(bench.Logged<SessionRecord>().size() == 1);
}

TEST_CASE("a newer process of one name takes over, and the older one is told to end", "[server][join]") {
  CoordinatorBench bench;
  bench.Run();
  const Join older = bench.MakeJoin("w0", 1);
  const Join newer = bench.Joins("w0", 2);
  const std::vector<Error> errors = bench.Take<Error>(CoordinatorBench::PeerOf(older));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kRefused);
  CHECK(IsNamed(errors[0].message, "\"w0\""));
  CHECK(bench.coordinator->worker_count() == 2);
  CHECK(bench.ViewOf(newer).slots == Slots{0});
  Beat beat = bench.MakeBeat(newer);
  beat.nonce = older.nonce;
  bench.Send(CoordinatorBench::PeerOf(older), beat);
  CHECK(bench.Take<Error>(CoordinatorBench::PeerOf(older)).at(0).code == Code::kStale);
}

TEST_CASE("sessions are never used twice, not even by a coordinator that comes anew", "[server][join]") {
  CoordinatorBench bench;
  bench.Run();
  bench.Live();
  const Join w0 = bench.Joins("w0");
  REQUIRE(bench.Logged<SessionRecord>().size() == 2);  // before and after
  CHECK(bench.ViewOf(w0).session.value > bench.Logged<SessionRecord>()[0].session.value);
  CHECK(bench.coordinator->term() == Term{2});
}

TEST_CASE("a record of the log covers the sessions of many workers", "[server][join]") {
  CoordinatorBench bench;
  bench.Run();
  std::uint64_t last = 0;
  for (int i = 0; i < 600; ++i) {
    const Join join = bench.MakeJoin("worker", 100 + static_cast<std::uint64_t>(i));  // each takes over from the last
    bench.Send(CoordinatorBench::PeerOf(join), join);
    const SessionId session = bench.ViewOf(join).session;
    REQUIRE(session.value > last);
    last = session.value;
    REQUIRE(bench.Logged<SessionRecord>().back().session.value >= last);
  }
  CHECK(bench.Logged<SessionRecord>().size() == 3);
}

TEST_CASE("a Beat of an unknown session is stale; of a known one it is answered with the view", "[server][beat]") {
  CoordinatorBench bench;
  bench.Run();
  const Join w0 = bench.Joins("w0");
  const Beat beat = bench.MakeBeat(w0);
  bench.Send(CoordinatorBench::PeerOf(w0), beat);
  CHECK(bench.ViewOf(w0).phase == JobPhase::kRunning);
  Beat wrong = beat;
  wrong.session = SessionId{77};
  bench.Send(CoordinatorBench::kStranger, wrong);
  CHECK(bench.Take<Error>(CoordinatorBench::kStranger).at(0).code == Code::kStale);
  wrong = beat;
  wrong.nonce = 77;
  bench.Send(CoordinatorBench::kStranger, wrong);
  CHECK(bench.Take<Error>(CoordinatorBench::kStranger).at(0).code == Code::kStale);
}

TEST_CASE("a silent worker's slots move when its lease is over, and it may join again", "[server][lease]") {
  CoordinatorBench bench;
  bench.Run();
  const Join w0 = bench.Joins("w0"), w1 = bench.Joins("w1");
  bench.MakeBeat(w0);  // looks its session up
  bench.Pass(seconds(9), {w1});
  CHECK(bench.coordinator->worker_count() == 2);
  bench.Pass(seconds(2), {w1});
  CHECK(bench.coordinator->worker_count() == 1);
  CHECK(bench.metrics->leases_lost.value() == 1);
  CHECK(IsNamed(bench.Notices(), "\"w0\""));
  CHECK(bench.ViewOf(w1).slots == Slots{0, 1});
  bench.Send(CoordinatorBench::PeerOf(w0), bench.MakeBeat(w0));
  CHECK(bench.Take<Error>(CoordinatorBench::PeerOf(w0)).at(0).code == Code::kStale);
  bench.Joins("w0");
  CHECK(bench.ViewOf(w0).slots.size() == 1);
  CHECK(bench.ViewOf(w1).slots == Slots{0});
}

TEST_CASE("a pause of the coordinator costs nobody the lease, and no time of the job", "[server][lease]") {
  CoordinatorBench bench;
  bench.config.limits.stall = 60;
  bench.Run();
  bench.Pass(seconds(1));
  bench.Tick(seconds(100));  // paused, then continued: messages that arrived meanwhile are not read yet
  CHECK(bench.coordinator->worker_count() == 2);
  CHECK(bench.coordinator->state() == State::kRunning);
  bench.Pass(seconds(11));
  CHECK(bench.coordinator->worker_count() == 0);
}

TEST_CASE("whoever leaves, or is known to be dead, loses its slots at once", "[server][lease]") {
  CoordinatorBench bench;
  bench.Run();
  const Join w0 = bench.Joins("w0"), w1 = bench.Joins("w1");
  Leave leave = bench.MakeLeave(w0);
  leave.nonce = 5;
  bench.Send(CoordinatorBench::PeerOf(w0), leave);
  CHECK(bench.coordinator->worker_count() == 2);  // another session's message
  bench.Send(CoordinatorBench::PeerOf(w0), bench.MakeLeave(w0));
  CHECK(bench.ViewOf(w1).slots == Slots{0, 1});
  const Join w2 = bench.Joins("w2");
  CHECK(bench.ViewOf(w1).slots == Slots{0});
  Outbox out;
  bench.coordinator->WorkerDied("w1", bench.now, &out);
  bench.coordinator->WorkerDied("nobody", bench.now, &out);
  CHECK(bench.coordinator->worker_count() == 1);
  bench.Send(CoordinatorBench::PeerOf(w2), bench.MakeBeat(w2));
  CHECK(bench.ViewOf(w2).slots == Slots{0, 1});
}

// ---- shards that send Hello -----------------------------------------------------------------------------------------

TEST_CASE("a shard that cannot belong to the job is refused, with the reason", "[server][hello]") {
  CoordinatorBench bench;
  bench.accept_rollback = GENERATE(false, true);  // the same if shards may be taken back
  const bool collecting = GENERATE(false, true);
  if (collecting) bench.Live();
  if (!collecting) bench.Run();
  const Term term = bench.coordinator->term();
  const Generation generation = bench.coordinator->generation();
  const Coordinator::State state = bench.coordinator->state();
  const PeerId peer{4000};
  constexpr std::uint64_t kAbsurd = (std::uint64_t{1} << 48) + 1;  // nothing counts beyond it, and nothing wraps
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
      {Code::kInvalid, "no job reaches", [](Hello* hello) { hello->term = Term{kAbsurd}; }},
      {Code::kInvalid, "no job reaches", [](Hello* hello) { hello->term = Term{UINT64_MAX}; }},
      {Code::kInvalid, "no job reaches", [](Hello* hello) { hello->generation = Generation{kAbsurd}; }},
      {Code::kInvalid, "no job reaches", [](Hello* hello) { hello->newest_kept.generation = Generation{UINT64_MAX}; }},
  };
  for (const Bad& one : bad) {
    Hello hello = bench.shards[1].hello;
    hello.incarnation = Incarnation{60};
    one.change(&hello);
    bench.Send(peer, hello);
    const std::vector<Error> errors = bench.Take<Error>(peer);
    INFO(one.word);
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].code == one.code);
    CHECK(IsNamed(errors[0].message, one.word));
  }
  CHECK(bench.coordinator->term() == term);
  CHECK(bench.coordinator->generation() == generation);
  CHECK(bench.coordinator->state() == state);
}

TEST_CASE("of two processes with one index the first keeps it, and the second is refused", "[server][hello]") {
  CoordinatorBench bench;
  bench.Run();
  bench.SayHello(1);
  Hello second = bench.shards[1].hello;
  second.incarnation = Incarnation{60};
  second.endpoint = "elsewhere";
  second.serving = false;
  second.generation = {};
  const PeerId peer{4000};
  bench.Send(peer, second);
  CHECK(bench.coordinator->generation() == Generation{1});  // no Hello is believed yet
  CHECK(bench.Take<Error>(peer).empty());
  bench.Tick(seconds(1));  // the regular Ping finds the first one alive
  CHECK(bench.TakeFromShard<Ping>(1).size() == 1);
  bench.SayHello(1);
  const std::vector<Error> errors = bench.Take<Error>(peer);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kRefused);
  CHECK(IsNamed(errors[0].message, "server 1 is already running at shard-1"));
  CHECK(bench.coordinator->generation() == Generation{1});
  CHECK(bench.coordinator->state() == State::kRunning);
}

TEST_CASE("a life belongs to one address", "[server][hello]") {
  CoordinatorBench bench;
  bench.Run();
  bench.SayHello(1);
  const Hello copied = bench.shards[1].hello;
  bench.Send(CoordinatorBench::kStranger, copied);
  bench.Pass(seconds(5));
  bench.Send(CoordinatorBench::kStranger, copied);
  bench.Forget();
  bench.Pass(seconds(1));
  CHECK(bench.TakeFromShard<Ping>(1).size() == 1);
  CHECK(bench.Take<Ping>(CoordinatorBench::kStranger).empty());
  CHECK(bench.coordinator->generation() == Generation{1});
}

TEST_CASE("a process that takes a silent one's index is believed after a while", "[server][hello]") {
  CoordinatorBench bench;
  bench.Run();
  bench.SayHello(1);
  Hello second = bench.shards[1].hello;
  second.incarnation = Incarnation{60};
  second.endpoint = "elsewhere";
  second.serving = false;
  second.generation = {};
  const PeerId peer{4000};
  bench.Send(peer, second);
  bench.Pass(seconds(4));
  CHECK(bench.coordinator->generation() == Generation{1});
  bench.Send(peer, second);
  CHECK(bench.coordinator->generation() == Generation{2});
  CHECK(bench.Take<Reset>(peer).at(0).incarnation == Incarnation{60});
}

TEST_CASE("a late Hello of an earlier life is no new life", "[server][hello]") {
  CoordinatorBench bench;
  bench.Run();
  Hello late = bench.shards[1].hello;
  late.incarnation = Incarnation{40};
  bench.Send(bench.shards[1].peer, late);
  bench.Pass(seconds(4));
  bench.Send(bench.shards[1].peer, late);
  bench.Send(PeerId{4000}, late);
  CHECK(bench.coordinator->generation() == Generation{1});
  CHECK(bench.coordinator->shards().at(1).incarnation == Incarnation{51});
}

TEST_CASE("a shard whose clock is behind that of the life before is told so, and people are", "[server][hello]") {
  CoordinatorBench bench;
  bench.Run();
  bench.SayHello(1);
  Hello back = bench.shards[1].hello;  // its disk is lost, and its machine's clock is behind
  back.incarnation = Incarnation{40};
  back.endpoint = "elsewhere";
  back.serving = false;
  back.generation = {};
  const PeerId peer{4000};
  bench.Send(peer, back);
  CHECK(bench.Take<Error>(peer).empty());  // it may be a late message of an earlier incarnation
  bench.Pass(seconds(4));
  bench.Send(peer, back);
  const std::vector<Error> errors = bench.Take<Error>(peer);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kRefused);
  CHECK(errors[0].incarnation == Incarnation{40});
  CHECK(IsNamed(errors[0].message, "server 1 at elsewhere"));
  CHECK(IsNamed(errors[0].message, "clock"));
  CHECK(IsNamed(bench.Notices(), errors[0].message));
  CHECK(bench.coordinator->generation() == Generation{1});
}

}  // namespace
}  // namespace capstan::server
