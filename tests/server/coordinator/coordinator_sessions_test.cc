// What a coordinator tells the shards of its members, and when.
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/live_sessions.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/view.h"
#include "server/shard/session_table.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::server {
namespace {

using Ranges = std::vector<SlotRange>;

// Takes all lists that were sent to a shard into the table of that shard.
void TakeLists(CoordinatorHarness* harness, ShardIndex shard, SessionTable* table) {
  for (const LiveSessions& list : harness->TakeFromShard<LiveSessions>(shard)) table->Take(list);
}

// Returns the position of the first message of type T to this peer among all that were sent.
template <class T>
std::size_t PositionOf(const CoordinatorHarness& harness, PeerId to) {
  const std::vector<Envelope>& all = harness.out().envelopes;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].to == to && all[i].message.header.Is<T>()) return i;
  }
  return SIZE_MAX;
}

TEST_CASE("when a generation runs, all shards know all sessions before their workers do", "[server][sessions]") {
  CoordinatorHarness harness;
  harness.Live();
  harness.ShardsEchoTerm();
  const Join w0 = harness.Joins("w0"), w1 = harness.Joins("w1");
  harness.AnswerReset(0);
  const SessionId first = harness.ViewOf(w0).session, second = harness.ViewOf(w1).session;
  harness.AnswerReset(1);
  for (ShardIndex shard : {0U, 1U}) {
    const std::size_t list = PositionOf<LiveSessions>(harness, harness.shards[shard].peer);
    CHECK(list < PositionOf<View>(harness, CoordinatorHarness::PeerOf(w0)));
    CHECK(list < PositionOf<View>(harness, CoordinatorHarness::PeerOf(w1)));
    SessionTable table;
    TakeLists(&harness, shard, &table);
    REQUIRE(table.size() == 2);
    REQUIRE(table.Find(first) != nullptr);
    CHECK(table.Find(first)->worker == "w0");
    CHECK(table.Find(first)->slots == Ranges{{0, 1}});
    CHECK(table.Find(second)->slots == Ranges{{1, 2}});
  }
}

TEST_CASE("whoever joins again and again has to wait, and others who ask again get in", "[server][sessions]") {
  CoordinatorHarness harness;
  harness.Run();
  std::uint64_t nonce = 1;
  const auto joins = [&] {
    const Join join = harness.Joins("w0", ++nonce);
    const std::vector<Error> errors = harness.Take<Error>(CoordinatorHarness::PeerOf(join));
    const bool joined = errors.empty();
    if (!joined) CHECK(errors.at(0).code == Code::kBusy);
    harness.Forget();
    return joined;
  };
  std::uint64_t joined = 0;
  while (joined < 2 * kWorkersMax && joins()) ++joined;
  CHECK(joined == 2 * kWorkersMax - 2);  // w0 and w1 have joined before
  const Join other = harness.Joins("w9", 20000);
  CHECK(harness.Take<Error>(CoordinatorHarness::PeerOf(other)).at(0).code == Code::kBusy);
  harness.Tick(std::chrono::seconds(1));
  harness.Send(CoordinatorHarness::PeerOf(other), other);  // it asks again
  CHECK(harness.coordinator->worker_count() == 3);
  joined = 0;
  while (joined < 1000 && joins()) ++joined;
  CHECK(joined == 49);
}

TEST_CASE("a worker that joins a running job is named to the shards first, without the others", "[server][sessions]") {
  CoordinatorHarness harness(2, 1);
  harness.Run();
  harness.Tick(std::chrono::milliseconds(100));
  harness.Forget();
  const Join w1 = harness.Joins("w1");
  const std::size_t view = PositionOf<View>(harness, CoordinatorHarness::PeerOf(w1));
  REQUIRE(view != SIZE_MAX);
  for (ShardIndex shard : {0U, 1U}) {
    CHECK(PositionOf<LiveSessions>(harness, harness.shards[shard].peer) < view);
    const LiveSessions list = harness.TakeFromShard<LiveSessions>(shard).at(0);
    CHECK(list.base > 0);
    REQUIRE(list.sessions.size() == 1);  // w0 keeps its slot of the view before, so nothing of it changes
    CHECK(list.sessions[0].worker == "w1");
    CHECK(list.sessions[0].slots == Ranges{{1, 2}});
  }
}

TEST_CASE("when very many join at once, the later ones are named and answered with the next Tick",
          "[server][sessions]") {
  CoordinatorHarness harness(1, 1);
  harness.Run();
  harness.Tick(std::chrono::milliseconds(100));
  std::uint64_t starts = 1;
  View view;
  do {  // a process that is started again and again
    harness.Forget();
    view = harness.ViewOf(harness.Joins("w1", ++starts));
  } while (view.session.value != 0);
  CHECK(starts > 1000);
  CHECK(starts <= SessionFeed::kTurnMax);
  CHECK(harness.TakeFromShard<LiveSessions>(0).empty());
  const Join last = harness.MakeJoin("w1", starts);
  harness.Tick(std::chrono::milliseconds(100));
  CHECK(PositionOf<LiveSessions>(harness, harness.shards[0].peer) <
        PositionOf<View>(harness, CoordinatorHarness::PeerOf(last)));
  view = harness.ViewOf(last);
  CHECK(view.session.value != 0);
  const LiveSessions list = harness.TakeFromShard<LiveSessions>(0).at(0);
  REQUIRE(list.sessions.size() == 1);
  CHECK(list.sessions[0].session == view.session);
}

TEST_CASE("a worker that leaves, is replaced or is lost is on no list any more", "[server][sessions]") {
  CoordinatorHarness harness(1, 3);
  harness.config.job.slots = harness.config.job.global_batch = 3;
  harness.Run();
  SessionTable table;
  harness.shards[0].hello.sessions = 0;
  const auto list = [&] {
    harness.Tick(std::chrono::seconds(1));
    harness.ShardsEchoTerm();
    harness.Tick(std::chrono::seconds(1));
    TakeLists(&harness, 0, &table);
    return table.size();
  };
  CHECK(list() == 3);
  const Join w0 = harness.MakeJoin("w0");
  harness.Send(CoordinatorHarness::PeerOf(w0), w0);
  const SessionId session = harness.ViewOf(w0).session;
  CHECK(table.Find(session) != nullptr);
  harness.Joins("w0", 2);
  CHECK(list() == 3);
  CHECK(table.Find(session) == nullptr);
  harness.WorkerDies("w1");
  CHECK(list() == 2);
  harness.Pass(harness.coordinator->lease() + std::chrono::seconds(1));
  CHECK(list() == 0);
}

TEST_CASE("a shard that has lost a list gets what it lacks after its next Hello", "[server][sessions]") {
  CoordinatorHarness harness(1, 1);
  harness.Run();
  harness.Tick(std::chrono::seconds(1));
  harness.Forget();
  harness.shards[0].hello.sessions = 0;  // it has none of the lists
  harness.SendHello(0);
  harness.Tick(std::chrono::milliseconds(100));
  const std::vector<LiveSessions> lists = harness.TakeFromShard<LiveSessions>(0);
  REQUIRE(lists.size() == 1);
  CHECK(lists[0].base == 0);
  CHECK(lists[0].sessions.size() == 1);
}

TEST_CASE("only the worker that gives the first weights is named as their founder", "[server][sessions]") {
  CoordinatorHarness harness(1, 2);
  harness.Live();
  harness.ShardsEchoTerm();
  for (const char* name : {"w1", "w0"}) {
    Join join = harness.MakeJoin(name);
    join.catalog[0].init.kind = InitKind::kFromWorker;
    harness.Send(CoordinatorHarness::PeerOf(join), join);
  }
  harness.AnswerReset(0);
  SessionTable table;
  TakeLists(&harness, 0, &table);
  for (const char* name : {"w0", "w1"}) {
    const View view = harness.ViewOf(harness.MakeJoin(name));
    REQUIRE(table.Find(view.session) != nullptr);
    CHECK(table.Find(view.session)->founder == view.founder);
    CHECK(view.founder == (std::string(name) == "w0"));
  }
}

TEST_CASE("a shard's Resets of one generation have one secret key, and another generation another",
          "[server][sessions]") {
  CoordinatorHarness harness;
  harness.Live();
  harness.ShardsEchoTerm();
  for (const char* name : {"w0", "w1"}) harness.Joins(name);
  const std::uint64_t key = harness.TakeFromShard<Reset>(0).at(0).fetch_key;
  CHECK(key != 0);
  CHECK(harness.TakeFromShard<Reset>(1).at(0).fetch_key == key);
  for (ShardIndex shard : {0U, 1U}) harness.AnswerReset(shard);
  harness.RestartShard(1, {});
  const std::uint64_t next = harness.TakeFromShard<Reset>(0).at(0).fetch_key;
  CHECK(next != 0);
  CHECK(next != key);
}

TEST_CASE("an Error of the coordinator tells a stranger no number of the job", "[server][sessions]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.DoStep(0);
  Heartbeat beat;
  beat.session = SessionId{5};
  harness.Send(CoordinatorHarness::kStranger, beat);
  const Error error = harness.Take<Error>(CoordinatorHarness::kStranger).at(0);
  CHECK(error.code == Code::kStale);
  CHECK(error.generation == Generation{});
  CHECK(error.step == Step{});
}

}  // namespace
}  // namespace capstan::server
