// What bounds the speed of a job, as its status says.
#include "server/coordinator/bound.h"

#include <nlohmann/json.hpp>

#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "server/coordinator/recent_time.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::server {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using JsonValue = nlohmann::json;

// The shares of a worker's time; the rest is computing.
struct Shares {
  double input = 0, exchange = 0, commit = 0;
};

class BoundHarness : public CoordinatorHarness {
 public:
  BoundHarness() {
    config.job.steps = 1000;
    config.limits.report = 5;
    Run();
    workers = {MakeJoin("w0"), MakeJoin("w1")};
    for (const Join& join : workers) Joins(join.worker);
  }
  // Lets some seconds pass, in each of which there is a step, and every worker and shard reports.
  void Report(const std::vector<Shares>& shares, double busy = 0, int seconds = 3) {
    for (int i = 0; i < seconds; ++i) {
      DoStep(coordinator->step().value);
      now += 1s;
      spent_seconds_ += 1;
      for (std::size_t w = 0; w < shares.size(); ++w) Beat(w, shares[w]);
      for (ShardIndex s = 0; s < shards.size(); ++s) {
        shards[s].hello.busy_us = Micro(s == 1 ? busy : busy / 2);
        SendHello(s);
      }
      coordinator->Tick(now, &out_of_ticks_);
    }
  }
  void Beat(std::size_t worker, const Shares& shares, std::int64_t behind = 0) {
    Heartbeat beat = MakeHeartbeat(workers[worker]);
    beat.generation = coordinator->generation();
    beat.step = Step{coordinator->step().value - static_cast<std::uint64_t>(behind)};
    beat.computing = true;
    beat.spent = {Micro(1), Micro(shares.input), Micro(shares.exchange), Micro(shares.commit)};
    Send(PeerOf(workers[worker]), beat);
  }
  JsonValue Status() const { return JsonValue::parse(coordinator->StatusJson(now)); }
  JsonValue Bound() const { return Status()["bound_by"]; }

  std::vector<Join> workers;

 private:
  std::uint64_t Micro(double share) const { return static_cast<std::uint64_t>(share * spent_seconds_ * 1e6); }

  double spent_seconds_ = 0;
  Outbox out_of_ticks_;
};

TEST_CASE("nothing is claimed before the workers have reported", "[server][bound]") {
  BoundHarness harness;
  CHECK(harness.Bound()["what"] == "unknown");
  harness.Report({{0.1, 0.1, 0.1}, {0.1, 0.1, 0.1}}, 0, 1);  // one report has no earlier one
  CHECK(harness.Bound()["what"] == "unknown");
}

TEST_CASE("what takes most of the workers' time bounds the job", "[server][bound]") {
  BoundHarness computes, reads, sends, serves;
  computes.Report({{0.1, 0.05, 0.05}, {0.1, 0.05, 0.05}});
  CHECK(computes.Bound() ==
        JsonValue{{"what", "compute"}, {"sentence", "Computing bounds the job: it takes 80 % of the workers' time."}});
  reads.Report({{0.6, 0, 0.1}, {0.5, 0, 0.1}});
  CHECK(reads.Bound()["what"] == "input");
  CHECK_THAT(reads.Bound()["sentence"], Contains("55 % of the workers' time"));
  sends.Report({{0, 0.4, 0.3}, {0, 0.3, 0.3}}, 0.2);
  CHECK(sends.Bound()["what"] == "network");
  CHECK_THAT(sends.Bound()["sentence"], Contains("wait 65 % of their time") && Contains("more than 20 %"));
  serves.Report({{0, 0.4, 0.3}, {0, 0.3, 0.3}}, 0.9);
  CHECK(serves.Bound()["what"] == "server");
  CHECK(serves.Bound()["who"] == "server 1");
  CHECK_THAT(serves.Bound()["sentence"], Contains("server 1 is busy 90 % of the time"));
}

TEST_CASE("a worker that waits far less than the others is the straggler", "[server][bound]") {
  BoundHarness harness;
  harness.Report({{0, 0.05, 0.55}, {0, 0.05, 0}});
  CHECK(harness.Bound()["what"] == "straggler");
  CHECK(harness.Bound()["who"] == "w1");
  CHECK_THAT(harness.Bound()["sentence"], Contains("\"w1\" is the slowest worker: the others wait 60 %"));
  harness.Report({{0, 0.05, 0.05}, {0, 0.05, 0.05}}, 0, 60);  // what was long ago does not count
  CHECK(harness.Bound()["what"] == "compute");
}

TEST_CASE("a job that waits is bound by what it waits for", "[server][bound]") {
  BoundHarness harness;
  harness.Report({{}, {}});
  const auto pass = [&](int seconds, ShardIndex alive) {  // without a step
    for (int i = 0; i < seconds; ++i) {
      harness.now += 1s;
      harness.Beat(0, {});
      for (ShardIndex shard = 0; shard < alive; ++shard) harness.SendHello(shard);
      harness.Tick();
    }
  };
  pass(6, 2);
  CHECK(harness.Bound()["what"] == "waiting");
  CHECK_THAT(harness.Bound()["sentence"], Contains("The job is waiting ") && Contains("\"w1\""));
  pass(4, 1);
  CHECK(harness.Bound()["who"] == "server 1");
  CHECK(harness.Bound()["sentence"] == "The job waits for server 1, silent for 4 s.");
  CoordinatorHarness gathers;
  gathers.Live();
  const JsonValue bound = JsonValue::parse(gathers.coordinator->StatusJson(gathers.now))["bound_by"];
  CHECK(bound["what"] == "waiting");
  CHECK_THAT(bound["sentence"], Contains("server 0 (never seen)") && Contains("2 of 2 workers"));
}

TEST_CASE("a worker's lag is how far it was behind the job when it reported", "[server][bound]") {
  BoundHarness harness;
  harness.Report({{}, {}}, 0, 10);
  harness.Beat(1, {}, 4);
  CHECK(harness.Status()["workers"][0]["lag"] == 0);
  CHECK(harness.Status()["workers"][1]["lag"] == 4);
  harness.DoStep(harness.coordinator->step().value);  // the next Heartbeats are not due yet
  CHECK(harness.Status()["workers"][0]["lag"] == 0);
  CHECK(harness.Status()["workers"][1]["lag"] == 4);
  Heartbeat strange = harness.MakeHeartbeat(harness.workers[1]);
  strange.generation = harness.coordinator->generation();
  strange.step = Step{UINT64_MAX};
  strange.computing = true;
  strange.spent = {1, UINT64_MAX, UINT64_MAX, UINT64_MAX};
  harness.Send(CoordinatorHarness::PeerOf(harness.workers[1]), strange);
  CHECK(harness.Status()["workers"][0]["lag"] == 0);
  CHECK(harness.Status()["workers"][1]["lag"] == 0);
}

TEST_CASE("shares are of recent time, and of a peer's sums never more than the whole", "[server][bound]") {
  RecentTime<2> time;
  CHECK_FALSE(time.shares());
  time.Take(5'000'000, {1'000'000, 0}, 0s);
  CHECK_FALSE(time.shares());
  time.Take(7'000'000, {2'000'000, 9'000'000}, 2s);
  REQUIRE(time.shares());
  CHECK((*time.shares())[0] == 0.5);
  CHECK((*time.shares())[1] == 1.0);
  time.Take(1'000'000, {0, 0}, 3s);  // the process has begun again
  CHECK_FALSE(time.shares());
  for (int i = 1; i <= 40; ++i)
    time.Take(1'000'000 + i * 1'000'000ULL, {i < 15 ? i * 1'000'000ULL : 14'000'000, 0}, (3 + i) * 1s);
  CHECK((*time.shares())[0] == 0.0);
}

}  // namespace
}  // namespace capstan::server
