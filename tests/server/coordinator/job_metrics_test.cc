// What the coordinator's metrics say of its members: restarts, slow workers, what is wanted, and slots that are apart.
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/wire/messages/shard_reports.h"
#include "monitoring/metrics.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

using namespace capstan;
using namespace capstan::server;
using monitoring::Member;

TEST_CASE("a process that comes in place of another counts as a restart, one that comes back does not",
          "[server][coordinator]") {
  CoordinatorHarness harness(2, 2);
  harness.Run();
  monitoring::ByMember<monitoring::Counter>& restarts = harness.metrics->restarts;
  CHECK(restarts[Member::kWorker].value() == 0);
  CHECK(restarts[Member::kShard].value() == 0);
  harness.WorkerDies("w1");
  (void)harness.Joins("w1", 2);
  CHECK(restarts[Member::kWorker].value() == 1);
  harness.WorkerDies("w1");  // it was only cut off
  (void)harness.Joins("w1", 2);
  (void)harness.Joins("w2");
  CHECK(restarts[Member::kWorker].value() == 1);
  harness.RestartShard(1, {});
  CHECK(restarts[Member::kShard].value() == 1);
}

TEST_CASE("the straggler's ratio is its time in the present step over the mean of recent steps",
          "[server][coordinator]") {
  CoordinatorHarness harness(1, 2);
  harness.config.job.steps = 10;
  harness.Run();
  const Join fast = harness.Joins("w0"), slow = harness.Joins("w1");
  for (std::uint64_t step = 0; step < 3; ++step) {
    harness.Pass(std::chrono::seconds(2), {fast, slow});
    harness.DoStep(step);
  }
  const auto pass = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      harness.Send(CoordinatorHarness::PeerOf(fast), harness.MakeHeartbeat(fast, 3, false));
      harness.Send(CoordinatorHarness::PeerOf(slow), harness.MakeHeartbeat(slow, 3, true));
      harness.Tick(std::chrono::seconds(1));
    }
  };
  pass(1);
  CHECK(harness.metrics->state.value() == 2);  // which monitoring calls running
  CHECK(harness.metrics->straggler_ratio.value() == Approx(0.5));
  pass(19);
  CHECK(harness.metrics->straggler_ratio.value() == Approx(10));
  harness.DoStep(3);
  harness.Send(CoordinatorHarness::PeerOf(slow), harness.MakeHeartbeat(slow, 4, false));
  harness.Tick();
  CHECK(harness.metrics->straggler_ratio.value() == 0);
}

TEST_CASE("metrics have what the job file asks for, and nothing where it asks for nothing", "[server][coordinator]") {
  CoordinatorHarness harness(3, 2);
  harness.config.limits.stall = 0;
  harness.config.snapshot.every_seconds = 0;
  harness.config.snapshot.every_steps = 7;
  harness.Live();
  const monitoring::CoordinatorMetrics& metrics = *harness.metrics;
  CHECK(metrics.members_wanted[Member::kWorker].value() == 2);
  CHECK(metrics.members_wanted[Member::kShard].value() == 3);
  CHECK(metrics.snapshot_every_steps.value() == 7.0);
  CHECK_FALSE(metrics.snapshot_every_seconds.value());
  CHECK_FALSE(metrics.stall_limit_seconds.value());
  CHECK_FALSE(metrics.staleness_limit_steps.value());
}

TEST_CASE("without global steps the slowest slot's distance to the fastest is known, and no norm or loss scale",
          "[server][coordinator]") {
  CoordinatorHarness harness(2, 2, Mode::kBounded);
  harness.Run();
  CHECK(harness.metrics->staleness_limit_steps.value() == static_cast<double>(harness.config.job.staleness));
  CHECK_FALSE(harness.metrics->slot_skew_steps.value());
  const auto report = [&](ShardIndex shard, SequenceNumber first, SequenceNumber last) {
    const Hello& hello = harness.shards[shard].hello;
    std::vector<SequenceNumber> clocks(harness.config.slots(), first);
    clocks.back() = last;
    harness.Send(harness.shards[shard].peer, Progress{shard, hello.incarnation, hello.generation, clocks, {}});
  };
  report(0, SequenceNumber{2}, SequenceNumber{9});
  CHECK(harness.metrics->slot_skew_steps.value() == 7.0);
  report(1, SequenceNumber{3},
         SequenceNumber{UINT64_MAX - 1000});  // a shard without blocks waits for its own slots only
  CHECK(harness.metrics->slot_skew_steps.value() == 7.0);
  report(0, SequenceNumber{8}, SequenceNumber{9});
  CHECK(harness.metrics->slot_skew_steps.value() == 1.0);
  CHECK_FALSE(harness.metrics->gradient_norm.value());
  CHECK_FALSE(harness.metrics->loss_scale.value());
}
