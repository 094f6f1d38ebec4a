// How many requests the coordinator carries out, of each peer and of all.
#include "server/coordinator/request_limits.h"

#include "common/config/job/cluster_section.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::server {
namespace {

using namespace std::chrono_literals;
using Verdict = RequestLimits::Verdict;

TEST_CASE("a peer has its burst, and then its rate; it is refused once a second", "[server][limits]") {
  RequestLimits limits({2, 3}, {1000, 1000}, 10s);
  for (int i = 0; i < 3; ++i) CHECK(limits.Take({1}, 10s) == Verdict::kCarryOut);
  CHECK(limits.Take({1}, 10s) == Verdict::kRefuse);
  CHECK(limits.Take({1}, 10s) == Verdict::kIgnore);
  CHECK(limits.Take({2}, 10s) == Verdict::kCarryOut);  // another peer's bucket
  CHECK(limits.Take({1}, 10s + 500ms) == Verdict::kCarryOut);
  CHECK(limits.Take({1}, 10s + 600ms) == Verdict::kIgnore);
  CHECK(limits.Take({1}, 10s + 900ms) == Verdict::kIgnore);
  CHECK(limits.Take({1}, 11s) == Verdict::kCarryOut);
  CHECK(limits.Take({1}, 11s) == Verdict::kRefuse);
}

TEST_CASE("all peers together have a limit as well", "[server][limits]") {
  RequestLimits limits({10, 10}, {1, 5}, 0s);
  int carried_out = 0;
  for (std::uint64_t peer = 1; peer <= 100; ++peer) carried_out += limits.Take({peer}, 0s) == Verdict::kCarryOut ? 1 : 0;
  CHECK(carried_out == 5);
}

TEST_CASE("few peers are remembered, and quiet ones are forgotten", "[server][limits]") {
  RequestLimits limits({1, 1}, {1e9, 1e9}, 0s);
  for (std::uint64_t peer = 1; peer <= 2 * RequestLimits::kPeersMax; ++peer) {
    CHECK(limits.Take({peer}, 0s) == Verdict::kCarryOut);
  }
  CHECK(limits.peers() == RequestLimits::kPeersMax);
  CHECK(limits.Take({UINT64_MAX}, 2s) == Verdict::kCarryOut);
  CHECK(limits.peers() == 1);
}

TEST_CASE("a start of all workers at once, each of which joins twice, is within the limits", "[server][limits]") {
  CoordinatorHarness harness(1, 2);
  harness.Live();
  for (std::uint64_t i = 0; i < Membership::kWorkersMax; ++i) {
    const PeerId peer{10000 + i};
    Join join = harness.MakeJoin("worker-" + std::to_string(i), i + 1);
    const std::vector<TensorSpec> catalog = std::exchange(join.catalog, {});
    harness.Send(peer, join);
    REQUIRE_FALSE(harness.Take<View>(peer).at(0).job_file.empty());
    join.catalog = catalog;
    harness.Send(peer, join);
    harness.Forget();
  }
  CHECK(harness.coordinator->worker_count() == Membership::kWorkersMax);
}

TEST_CASE("one peer's many Joins cost it the answers, and others nothing", "[server][limits]") {
  CoordinatorHarness harness;
  harness.Run();
  const std::size_t records = harness.log.records().size();
  std::size_t answers = 0;
  for (int millisecond = 0; millisecond < 5000; ++millisecond) {
    harness.now += 1ms;
    for (std::uint64_t i = 0; i < 3; ++i) {
      harness.Send(CoordinatorHarness::kStranger,
                   harness.MakeJoin("w0", static_cast<std::uint64_t>(millisecond) * 3 + i + 10));
    }
    answers += harness.Take<View>(CoordinatorHarness::kStranger).size();
    for (const Error& error : harness.Take<Error>(CoordinatorHarness::kStranger)) {
      CHECK(error.code == Code::kBusy);
      ++answers;
    }
    harness.Forget();
  }
  CHECK(answers < 100);
  CHECK(harness.log.records().size() <= records + 1);
  CHECK(harness.coordinator->worker_count() == 3);
  const Join w9 = harness.Joins("w9");
  CHECK(harness.ViewOf(w9).session.value != 0);
}

TEST_CASE("Heartbeats and Hellos of strangers are not all answered", "[server][limits]") {
  CoordinatorHarness harness;
  harness.Run();
  Heartbeat unknown;
  unknown.session = SessionId{12345};
  Hello hello = harness.MakeNextHello(1);
  hello.config_hash ^= 1;  // it is refused
  std::size_t answers = 0, views = 0;
  for (int millisecond = 0; millisecond < 5000; ++millisecond) {
    harness.now += 1ms;
    harness.Send(CoordinatorHarness::kStranger, unknown);
    harness.Send(CoordinatorHarness::kStranger, hello);
    harness.Send(CoordinatorHarness::kStranger, Heartbeat{});
    answers += harness.Take<Error>(CoordinatorHarness::kStranger).size();
    views += harness.Take<View>(CoordinatorHarness::kStranger).size();
    harness.Forget();
  }
  CHECK(answers < 100);
  CHECK(views < 400);
}

}  // namespace
}  // namespace capstan::server
