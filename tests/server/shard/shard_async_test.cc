// A shard without global steps: each push is applied on arrival, exactly once, in its slot's order.
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_bench.h"

namespace capstan::server {
namespace {

ShardBenchOptions Async(SlotIndex slots = 2, std::vector<std::int64_t> tensors = {4}) {
  return {.mode = Mode::kAsync, .slots = slots, .tensors = std::move(tensors)};
}

TEST_CASE("async: pushes are applied at once, in the order of their slot, each exactly once", "[server][async]") {
  ShardBench bench(Async());
  bench.Start().Stage(1, 0, kLeaf0, 2, 1.0F);
  CHECK(bench.WeightOf(0) == -1.0F);
  CHECK(bench.Take<Staged>().at(0).held == std::vector<Staged::Entry>{{0, kLeaf0}});
  bench.Stage(1, 0, kLeaf0, 2, 1.0F);  // doubled
  CHECK(bench.WeightOf(0) == -1.0F);
  CHECK(bench.Take<Staged>().at(0).held == std::vector<Staged::Entry>{{0, kLeaf0}});  // and acknowledged again
  CHECK(bench.metrics->pushes_duplicate.value() == 1);
  bench.Stage(2, 0, kLeaf0, 1, 2.0F);
  CHECK(bench.WeightOf(0) == -3.0F);
  bench.Stage(1, 0, kLeaf0, 2, 1.0F);  // late and doubled
  CHECK(bench.WeightOf(0) == -3.0F);
  CHECK(bench.shard->engine().updates(0) == 2);
}

TEST_CASE("async: a gap is invalid and names the last number applied; other slots go on", "[server][async]") {
  ShardBench bench(Async());
  bench.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  bench.Forget();
  bench.Stage(3, 0, kLeaf0, 1, 1.0F);
  std::vector<Error> errors = bench.Take<Error>();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kInvalid);
  CHECK(errors[0].last == Step{1});
  bench.Stage(UINT64_MAX, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.Refused(Code::kInvalid));
  CHECK(bench.WeightOf(0) == -1.0F);
  bench.Stage(1, 0, kLeaf1, 1, 5.0F);
  CHECK(bench.WeightOf(0) == -6.0F);
  bench.Stage(2, 0, kLeaf0, 1, 1.0F);
  bench.Stage(3, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.WeightOf(0) == -8.0F);
}

TEST_CASE("async: metrics go to the coordinator with the slot's end; those that cannot be are refused",
          "[server][async][metrics]") {
  ShardBench bench(Async(1));
  bench.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  EndSlot end = bench.MakeEnd(1, 0);
  end.report.metrics = {{"accuracy", 1.0, -1.0}};
  bench.Forget();
  bench.FromWorker(end);
  CHECK(bench.Refused(Code::kInvalid));
  end.report.metrics[0].weight = 1.0;
  bench.FromWorker(end);
  bench.Tick(std::chrono::seconds(1));
  const std::vector<Progress> progress = bench.Take<Progress>(kCoordinator);
  REQUIRE(!progress.empty());
  REQUIRE(progress.back().reports.size() == 1);
  CHECK(progress.back().reports[0].report.metrics == end.report.metrics);
}

TEST_CASE("async: only a single slot's gradient is applied", "[server][async]") {
  ShardBench bench(Async());
  bench.Start().Stage(1, 0, {0, 2}, 2, 1.0F);
  CHECK(bench.Refused(Code::kInvalid));
  CHECK(bench.WeightOf(0) == 0.0F);
  bench.Stage(1, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.WeightOf(0) == -1.0F);
}

TEST_CASE("async: a push without samples moves the clock and no weight", "[server][async]") {
  ShardBench bench(Async());
  bench.Start().Stage(1, 0, kLeaf0, 0, 0.0F);
  bench.Stage(2, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.WeightOf(0) == -1.0F);
  CHECK(bench.shard->engine().updates(0) == 1);
}

TEST_CASE("async: a slot's clock is the least of all blocks and of its ends", "[server][async]") {
  ShardBench bench(Async(2, {4, 4}));
  bench.Start();
  for (std::uint64_t k : {1U, 2U}) bench.Stage(k, 0, kLeaf0, 1, 1.0F);
  bench.Stage(1, 1, kLeaf0, 1, 1.0F);
  Staged coverage = bench.Coverage(0);
  CHECK(coverage.full);
  CHECK(coverage.clocks == std::vector<std::uint64_t>{0, 0});  // no slot has ended
  bench.FromWorker(bench.MakeEnd(1, 0));
  CHECK(bench.Coverage(0).clocks == std::vector<std::uint64_t>{1, 0});
  bench.FromWorker(bench.MakeEnd(2, 0));
  CHECK(bench.Coverage(0).clocks == std::vector<std::uint64_t>{1, 0});
  bench.Stage(2, 1, kLeaf0, 1, 1.0F);
  CHECK(bench.Coverage(0).clocks == std::vector<std::uint64_t>{2, 0});
}

TEST_CASE("async: ends of a slot count in order and once", "[server][async]") {
  ShardBench bench(Async(1));
  bench.Start().FromWorker(bench.MakeEnd(2, 0));
  CHECK(bench.Silent());  // the first one comes again
  bench.FromWorker(bench.MakeEnd(1, 0, 5));
  bench.FromWorker(bench.MakeEnd(1, 0, 9));
  CHECK(bench.Take<Staged>().size() == 2);
  bench.Tick(std::chrono::milliseconds(20));
  const Progress progress = bench.Take<Progress>(kCoordinator).at(0);
  REQUIRE(progress.reports.size() == 1);
  CHECK(progress.reports[0].step == Step{1});
  CHECK(progress.reports[0].report.samples == 5);
}

TEST_CASE("async: reports are repeated until the coordinator's clock has passed them", "[server][async]") {
  ShardBench bench(Async(1));
  bench.Start();
  for (std::uint64_t k : {1U, 2U}) {
    bench.Stage(k, 0, kLeaf0, 1, 1.0F);
    bench.FromWorker(bench.MakeEnd(k, 0));
  }
  bench.Tick(std::chrono::milliseconds(20));
  Progress progress = bench.Take<Progress>(kCoordinator).at(0);
  CHECK(progress.clocks == std::vector<std::uint64_t>{2});
  CHECK(progress.reports.size() == 2);
  bench.Tick(std::chrono::seconds(6));
  CHECK(bench.Take<Progress>(kCoordinator).at(0).reports.size() == 2);
  StepParameters parameters;
  parameters.learning_rate = 0.5F;
  bench.FromCoordinator(Rates{Term{1}, Generation{1}, Step{1}, parameters});
  CHECK(bench.shard->version() == Version{1});
  bench.Tick(std::chrono::seconds(6));
  progress = bench.Take<Progress>(kCoordinator).at(0);
  REQUIRE(progress.reports.size() == 1);
  CHECK(progress.reports[0].step == Step{2});
  bench.Stage(3, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.WeightOf(0) == -2.5F);
  parameters.learning_rate = 9.0F;
  bench.FromCoordinator(Rates{Term{1}, Generation{1}, Step{0}, parameters});  // late
  bench.FromCoordinator(Rates{Term{1}, Generation{2}, Step{9}, parameters});  // belongs to another timeline
  CHECK(bench.shard->version() == Version{1});
  bench.Stage(4, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.WeightOf(0) == -3.0F);
}

TEST_CASE("async: one Progress carries a bounded number of reports, the oldest first", "[server][async]") {
  ShardBench bench(Async(2));
  bench.Start();
  for (std::uint64_t k = 1; k <= 3000; ++k) {  // slot 0 is far behind
    bench.Stage(k, 0, kLeaf1, 1, 1.0F);
    bench.FromWorker(bench.MakeEnd(k, 1));
  }
  bench.Forget();
  bench.Tick(std::chrono::milliseconds(20));
  const Progress progress = bench.Take<Progress>(kCoordinator).at(0);
  CHECK(progress.clocks == std::vector<std::uint64_t>{0, 3000});
  REQUIRE(progress.reports.size() == 1024);
  CHECK(progress.reports.front().step == Step{1});
  CHECK(progress.reports.back().step == Step{1024});
}

TEST_CASE("async: a shard whose slots are far apart keeps the oldest reports, and writes snapshots that can be read",
          "[server][async][snapshot]") {
  ShardBench bench(Async(2, {1}));
  bench.Start();
  constexpr std::uint64_t kAhead = 70000;
  for (std::uint64_t k = 1; k <= kAhead; ++k) {  // slot 0 is far behind
    bench.Stage(k, 0, kLeaf1, 1, 1.0F);
    bench.FromWorker(bench.MakeEnd(k, 1));
    bench.Forget();
  }
  bench.Stage(1, 0, kLeaf0, 1, 1.0F);
  bench.FromWorker(bench.MakeEnd(1, 0, 5));
  bench.Forget();
  bench.FromCoordinator(bench.MakePin(0));
  const SnapshotDone done = bench.Take<SnapshotDone>(kCoordinator).at(0);
  CHECK(done.failure.empty());
  const SnapshotHeader header = bench.disk.ReadHeader({Generation{1}, Version{0}}, 0).value();
  CHECK(header.ended == std::vector<std::uint64_t>{1, kAhead});
  REQUIRE(header.reports.size() >= 4);
  CHECK(header.reports.size() <= 2 * kSlotsMax);
  CHECK(header.reports[0].step == Step{1});
  CHECK(header.reports[0].report.samples == 5);  // the last one to arrive is the oldest
  CHECK(header.reports[1].step == Step{1});
  CHECK(header.reports[2].step == Step{2});
  CHECK(DecodeSnapshotHeader(EncodeSnapshotHeader(header).value()).status().message() == "");
}

TEST_CASE("async: ends are taken a few rounds ahead of their slot's pushes, and the rest once these have come",
          "[server][async]") {
  ShardBench bench(Async(2, {4, 4}));
  bench.Start();
  bench.Stage(1, 0, kLeaf1, 1, 1.0F);  // block 1 has nothing yet
  const auto send = [&](std::uint64_t end) {
    bench.Forget();
    bench.FromWorker(bench.MakeEnd(end, 1));
    return !bench.Take<Staged>().empty();
  };
  CHECK(send(1));
  CHECK(send(2));
  for (std::uint64_t k = 3; k <= 50; ++k) CHECK(!send(k));
  CHECK(!send(3));
  bench.Stage(1, 1, kLeaf1, 1, 1.0F);  // round 1 is complete
  CHECK(send(3));
  CHECK(!send(4));
  bench.Forget();
  bench.Tick(std::chrono::milliseconds(20));
  CHECK(bench.Take<Progress>(kCoordinator).at(0).reports.size() == 3);
}

TEST_CASE("async: a pull gives the newest of each block with the block's own version", "[server][async]") {
  ShardBench bench(Async(1, {4, 4}));
  bench.Start();
  for (std::uint64_t k : {1U, 2U}) bench.Stage(k, 0, kLeaf0, 1, 1.0F);
  bench.Stage(1, 1, kLeaf0, 1, 1.0F);
  for (std::uint64_t version : {std::uint64_t{0}, std::uint64_t{9}}) {
    bench.FromWorker(bench.MakePull(version, {0, 1}));
    const std::vector<Weights> weights = bench.Take<Weights>();
    REQUIRE(weights.size() == 2);
    CHECK(weights[0].version == Version{2});
    CHECK(weights[1].version == Version{1});
  }
}

TEST_CASE("async: a block that is being sent is not written; one that nobody holds is updated in place",
          "[server][async]") {
  ShardBench bench(Async(1));
  bench.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  const std::byte* const place = bench.shard->store().Weights(0).data;
  bench.Stage(2, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.shard->store().Weights(0).data == place);
  bench.FromWorker(bench.MakePull(0, {0}));
  const Weights weights = bench.Take<Weights>().at(0);
  for (std::uint64_t k : {3U, 4U, 5U}) bench.Stage(k, 0, kLeaf0, 1, 1.0F);
  CHECK(Hash64(bench.payloads.back().bytes()) == weights.payload_hash);
  CHECK(bench.payloads.back().data == place);
  CHECK(bench.WeightOf(0) == -5.0F);
  bench.payloads.clear();
  bench.FromWorker(bench.MakePull(0, {0}));
  CHECK(bench.Take<Weights>().at(0).payload_hash != weights.payload_hash);  // of the bytes sent now
  CHECK(Hash64(bench.payloads.back().bytes()) != weights.payload_hash);
}

TEST_CASE("async: steps are neither prepared nor committed", "[server][async]") {
  ShardBench bench(Async(1));
  bench.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  bench.FromWorker(bench.MakeEnd(1, 0));
  CHECK(!bench.shard->engine().prepared());
  bench.Commits(0);
  bench.FromCoordinator(bench.MakeRedo(0, 1, 0.5F));
  CHECK(bench.shard->version() == Version{0});
  CHECK(bench.WeightOf(0) == -1.0F);
}

}  // namespace
}  // namespace capstan::server
