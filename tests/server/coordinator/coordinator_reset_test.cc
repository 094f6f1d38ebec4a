// A new generation leaves nothing of the one before: a coordinator that lost a shard in the middle of a job gives the
// shards the same orders as a coordinator that has just started on the same log.
#include "common/config/job/optimizer_section.h"
#include "common/wire/messages.h"
#include "common/wire/wire_codec.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_snapshot_steps.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;
using Bytes = std::vector<std::byte>;

// Returns the orders to one shard as bytes, without the term and the drawn key, which differ between coordinators.
template <class... Orders>
std::vector<Bytes> OrdersTo(const CoordinatorHarness& harness, ShardIndex shard) {
  std::vector<Bytes> orders;
  for (const Envelope& envelope : harness.out().envelopes) {
    if (envelope.to != harness.shards[shard].peer) continue;
    Header header = envelope.message.header;
    const auto add = [&](auto& order) {
      order.term = {};
      if constexpr (requires { order.fetch_key; }) order.fetch_key = 0;
      REQUIRE(EncodeHeader(Header(order), &orders.emplace_back()).ok());
    };
    (void)header.VisitAs<Orders...>(add);
  }
  return orders;
}

// Brings the job into the middle of a step. With global steps, all shards are asked to redo it, and only shard 0 has.
// Without, only shard 0 has reported newer clocks.
void BeginStep(CoordinatorHarness* harness, Mode mode) {
  const std::uint64_t step = harness->coordinator->step().value;
  if (!HasGlobalSteps(mode)) {
    Progress progress{0, harness->shards[0].hello.incarnation, harness->coordinator->generation(), {}, {}};
    progress.clocks = {SequenceNumber{step + 3}, SequenceNumber{step}};
    harness->Send(harness->shards[0].peer, progress);
    return;
  }
  for (ShardIndex shard : {0U, 1U}) harness->Prepares(shard, step, 9.0);  // clipped: each shard is told to redo it
  harness->Prepares(0, step, 9.0, 1);
}

void DoSteps(CoordinatorHarness* harness, Mode mode, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t step = harness->coordinator->step().value;
    if (!HasGlobalSteps(mode)) {
      Clocks(harness, step + 1);
      continue;
    }
    for (ShardIndex shard : {0U, 1U}) harness->Prepares(shard, step, 0.25);
    Commit commit;
    for (const Envelope& envelope : harness->out().envelopes) {
      if (const Commit* sent = envelope.message.header.As<Commit>()) commit = *sent;
    }
    REQUIRE(commit.step == Step{step});
    for (ShardIndex shard : {0U, 1U}) harness->Commits(shard, commit);
  }
}

// Begins the new generation after the loss of shard 0. Returns the orders that each shard then gets, by shard.
std::vector<std::vector<Bytes>> OrdersOfNewGeneration(CoordinatorHarness* harness, Mode mode) {
  harness->Tick(seconds(1));
  for (ShardIndex shard : {0U, 1U}) harness->AnswerReset(shard);
  INFO(harness->coordinator->failure().message());
  REQUIRE(harness->coordinator->state() == Coordinator::State::kRunning);
  DoSteps(harness, mode, 1);
  const std::uint64_t version = harness->coordinator->step().value;
  harness->Keeps(0, version);
  harness->Tick(seconds(20));
  harness->Keeps(1, version);
  BeginStep(harness, mode);
  harness->Tick(seconds(1));
  std::vector<std::vector<Bytes>> orders;
  for (ShardIndex shard : {0U, 1U}) {
    orders.push_back(OrdersTo<Reset, Redo, Commit, Pin, ClockUpdate, RetainedSnapshots>(*harness, shard));
  }
  return orders;
}

TEST_CASE("a coordinator that begins a generation gives the orders of one that has just started", "[server][reset]") {
  const Mode mode = GENERATE(Mode::kSync, Mode::kAsync, Mode::kBounded);
  CAPTURE(static_cast<int>(mode));
  CoordinatorHarness used = Harness(2, mode, {1, 0, 2});
  used.config.optimizer.lr = 0.25;  // the learning rate that MakeDone reports
  if (HasGlobalSteps(mode)) used.config.optimizer.clip_norm = 1.0;
  used.Run();
  DoSteps(&used, mode, 1);
  for (ShardIndex shard : {0U, 1U}) used.Keeps(shard, 1);
  const SnapshotId snapshot = used.coordinator->newest_snapshot();
  REQUIRE(snapshot.version == Version{1});
  used.shards[1].hello.parts = {Part(snapshot, 1)};
  used.Forget();
  DoSteps(&used, mode, 1);
  used.Keeps(0, 2);  // the other shard never writes its part of this snapshot
  BeginStep(&used, mode);
  used.Tick(seconds(1));

  CoordinatorHarness fresh = Harness(2, mode, {1, 0, 2});
  fresh.config = used.config;
  fresh.log = used.log;
  fresh.now = used.now;
  fresh.shards = used.shards;
  fresh.Live();
  for (const char* name : {"w0", "w1"}) fresh.Joins(name);
  fresh.shards[1].hello.term = fresh.coordinator->term();
  fresh.SendHello(1);
  for (CoordinatorHarness* harness : {&used, &fresh}) {
    harness->Forget();
    harness->RestartShard(0, {Part(snapshot, 0)});
  }
  REQUIRE(used.coordinator->generation() == fresh.coordinator->generation());
  const auto expected = OrdersOfNewGeneration(&fresh, mode);
  CHECK(expected[0].size() >= (HasGlobalSteps(mode) ? 4U : 3U));
  CHECK(OrdersOfNewGeneration(&used, mode) == expected);
}

}  // namespace
}  // namespace capstan::server
