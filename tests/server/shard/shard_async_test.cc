// A shard without global steps: each push is applied on arrival, exactly once, in its slot's order.
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

ShardHarnessOptions Async(SlotIndex slots = 2, std::vector<std::int64_t> tensors = {4}) {
  return {.mode = Mode::kAsync, .slots = slots, .tensors = std::move(tensors)};
}

TEST_CASE("async: pushes are applied at once, in the order of their slot, each exactly once", "[server][async]") {
  ShardHarness harness(Async());
  harness.Start().Stage(1, 0, kLeaf0, 2, 1.0F);
  CHECK(harness.WeightOf(0) == -1.0F);
  CHECK(harness.Take<Staged>().at(0).nodes == std::vector<Staged::Entry>{{0, kLeaf0}});
  harness.Stage(1, 0, kLeaf0, 2, 1.0F);  // doubled
  CHECK(harness.WeightOf(0) == -1.0F);
  CHECK(harness.Take<Staged>().at(0).nodes == std::vector<Staged::Entry>{{0, kLeaf0}});  // and acknowledged again
  CHECK(harness.metrics->pushes_duplicate.value() == 1);
  harness.Stage(2, 0, kLeaf0, 1, 2.0F);
  CHECK(harness.WeightOf(0) == -3.0F);
  harness.Stage(1, 0, kLeaf0, 2, 1.0F);  // late and doubled
  CHECK(harness.WeightOf(0) == -3.0F);
  CHECK(harness.shard->engine().updates(0) == 2);
}

TEST_CASE("async: a gap is invalid and names the last number applied; other slots go on", "[server][async]") {
  ShardHarness harness(Async());
  harness.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  harness.Forget();
  harness.Stage(3, 0, kLeaf0, 1, 1.0F);
  std::vector<Error> errors = harness.Take<Error>();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kInvalid);
  CHECK(errors[0].last == SequenceNumber{1});
  harness.Stage(UINT64_MAX, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.Refused(Code::kInvalid));
  CHECK(harness.WeightOf(0) == -1.0F);
  harness.Stage(1, 0, kLeaf1, 1, 5.0F);
  CHECK(harness.WeightOf(0) == -6.0F);
  harness.Stage(2, 0, kLeaf0, 1, 1.0F);
  harness.Stage(3, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.WeightOf(0) == -8.0F);
}

TEST_CASE("async: metrics go to the coordinator with the slot's end; those that cannot be are refused",
          "[server][async][metrics]") {
  ShardHarness harness(Async(1));
  harness.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  EndSlot end = harness.MakeEnd(1, 0);
  end.report.metrics = {{"accuracy", 1.0, -1.0}};
  harness.Forget();
  harness.FromWorker(end);
  CHECK(harness.Refused(Code::kInvalid));
  end.report.metrics[0].weight = 1.0;
  harness.FromWorker(end);
  harness.Tick(std::chrono::seconds(1));
  const std::vector<Progress> progress = harness.Take<Progress>(kCoordinator);
  REQUIRE(!progress.empty());
  REQUIRE(progress.back().reports.size() == 1);
  CHECK(progress.back().reports[0].report.metrics == end.report.metrics);
}

TEST_CASE("async: only a single slot's gradient is applied", "[server][async]") {
  ShardHarness harness(Async());
  harness.Start().Stage(1, 0, {0, 2}, 2, 1.0F);
  CHECK(harness.Refused(Code::kInvalid));
  CHECK(harness.WeightOf(0) == 0.0F);
  harness.Stage(1, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.WeightOf(0) == -1.0F);
}

TEST_CASE("async: a push without samples moves the clock and no weight", "[server][async]") {
  ShardHarness harness(Async());
  harness.Start().Stage(1, 0, kLeaf0, 0, 0.0F);
  harness.Stage(2, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.WeightOf(0) == -1.0F);
  CHECK(harness.shard->engine().updates(0) == 1);
}

TEST_CASE("async: a slot's clock is the least of all blocks and of its ends", "[server][async]") {
  ShardHarness harness(Async(2, {4, 4}));
  harness.Start();
  for (std::uint64_t k : {1U, 2U}) harness.Stage(k, 0, kLeaf0, 1, 1.0F);
  harness.Stage(1, 1, kLeaf0, 1, 1.0F);
  Staged coverage = harness.Coverage(0);
  CHECK(coverage.full);
  CHECK(coverage.clocks == std::vector<SequenceNumber>{{0}, {0}});  // no slot has ended
  harness.FromWorker(harness.MakeEnd(1, 0));
  CHECK(harness.Coverage(0).clocks == std::vector<SequenceNumber>{{1}, {0}});
  harness.FromWorker(harness.MakeEnd(2, 0));
  CHECK(harness.Coverage(0).clocks == std::vector<SequenceNumber>{{1}, {0}});
  harness.Stage(2, 1, kLeaf0, 1, 1.0F);
  CHECK(harness.Coverage(0).clocks == std::vector<SequenceNumber>{{2}, {0}});
}

TEST_CASE("async: ends of a slot count in order and once", "[server][async]") {
  ShardHarness harness(Async(1));
  harness.Start().FromWorker(harness.MakeEnd(2, 0));
  CHECK(harness.Silent());  // the first one comes again
  harness.FromWorker(harness.MakeEnd(1, 0, 5));
  harness.FromWorker(harness.MakeEnd(1, 0, 9));
  CHECK(harness.Take<Staged>().size() == 2);
  harness.Tick(std::chrono::milliseconds(20));
  const Progress progress = harness.Take<Progress>(kCoordinator).at(0);
  REQUIRE(progress.reports.size() == 1);
  CHECK(progress.reports[0].sequence == SequenceNumber{1});
  CHECK(progress.reports[0].report.samples == 5);
}

TEST_CASE("async: reports are repeated until the coordinator's clock has passed them", "[server][async]") {
  ShardHarness harness(Async(1));
  harness.Start();
  for (std::uint64_t k : {1U, 2U}) {
    harness.Stage(k, 0, kLeaf0, 1, 1.0F);
    harness.FromWorker(harness.MakeEnd(k, 0));
  }
  harness.Tick(std::chrono::milliseconds(20));
  Progress progress = harness.Take<Progress>(kCoordinator).at(0);
  CHECK(progress.clocks == std::vector<SequenceNumber>{{2}});
  CHECK(progress.reports.size() == 2);
  harness.Tick(std::chrono::seconds(6));
  CHECK(harness.Take<Progress>(kCoordinator).at(0).reports.size() == 2);
  StepParameters parameters;
  parameters.learning_rate = 0.5F;
  harness.FromCoordinator(ClockUpdate{Term{1}, Generation{1}, SequenceNumber{1}, parameters});
  CHECK(harness.shard->version() == Version{1});
  harness.Tick(std::chrono::seconds(6));
  progress = harness.Take<Progress>(kCoordinator).at(0);
  REQUIRE(progress.reports.size() == 1);
  CHECK(progress.reports[0].sequence == SequenceNumber{2});
  harness.Stage(3, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.WeightOf(0) == -2.5F);
  parameters.learning_rate = 9.0F;
  harness.FromCoordinator(ClockUpdate{Term{1}, Generation{1}, SequenceNumber{0}, parameters});  // late
  harness.FromCoordinator(
      ClockUpdate{Term{1}, Generation{2}, SequenceNumber{9}, parameters});  // belongs to another timeline
  CHECK(harness.shard->version() == Version{1});
  harness.Stage(4, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.WeightOf(0) == -3.0F);
}

TEST_CASE("async: one Progress carries a bounded number of reports, the oldest first", "[server][async]") {
  ShardHarness harness(Async(2));
  harness.Start();
  for (std::uint64_t k = 1; k <= 3000; ++k) {  // slot 0 is far behind
    harness.Stage(k, 0, kLeaf1, 1, 1.0F);
    harness.FromWorker(harness.MakeEnd(k, 1));
  }
  harness.Forget();
  harness.Tick(std::chrono::milliseconds(20));
  const Progress progress = harness.Take<Progress>(kCoordinator).at(0);
  CHECK(progress.clocks == std::vector<SequenceNumber>{{0}, {3000}});
  REQUIRE(progress.reports.size() == 1024);
  CHECK(progress.reports.front().sequence == SequenceNumber{1});
  CHECK(progress.reports.back().sequence == SequenceNumber{1024});
}

TEST_CASE("async: a shard whose slots are far apart keeps the oldest reports, and writes snapshots that can be read",
          "[server][async][snapshot]") {
  ShardHarness harness(Async(2, {1}));
  harness.Start();
  constexpr std::uint64_t kFast = 70000;
  for (std::uint64_t k = 1; k <= kFast; ++k) {  // slot 0 is far behind
    harness.Stage(k, 0, kLeaf1, 1, 1.0F);
    harness.FromWorker(harness.MakeEnd(k, 1));
    harness.Forget();
  }
  harness.Stage(1, 0, kLeaf0, 1, 1.0F);
  harness.FromWorker(harness.MakeEnd(1, 0, 5));
  harness.Forget();
  harness.FromCoordinator(harness.MakePin(0));
  const SnapshotDone done = harness.Take<SnapshotDone>(kCoordinator).at(0);
  CHECK(done.failure.empty());
  const SnapshotHeader header = *harness.disk.ReadHeader({Generation{1}, Version{0}}, 0).value();
  CHECK(header.ended == std::vector<SequenceNumber>{{1}, {kFast}});
  REQUIRE(header.reports.size() >= 4);
  CHECK(header.reports.size() <= 2 * kSlotsMax);
  CHECK(header.reports[0].sequence == SequenceNumber{1});
  CHECK(header.reports[0].report.samples == 5);  // the last one to arrive is the oldest
  CHECK(header.reports[1].sequence == SequenceNumber{1});
  CHECK(header.reports[2].sequence == SequenceNumber{2});
  CHECK(DecodeSnapshotHeader(EncodeSnapshotHeader(header).value()).status().message() == "");
}

TEST_CASE("async: ends are taken a few rounds ahead of their slot's pushes, and the rest once these have come",
          "[server][async]") {
  ShardHarness harness(Async(2, {4, 4}));
  harness.Start();
  harness.Stage(1, 0, kLeaf1, 1, 1.0F);  // block 1 has nothing yet
  const auto send = [&](std::uint64_t end) {
    harness.Forget();
    harness.FromWorker(harness.MakeEnd(end, 1));
    return !harness.Take<Staged>().empty();
  };
  CHECK(send(1));
  CHECK(send(2));
  for (std::uint64_t k = 3; k <= 50; ++k) CHECK(!send(k));
  CHECK(!send(3));
  harness.Stage(1, 1, kLeaf1, 1, 1.0F);  // round 1 is complete
  CHECK(send(3));
  CHECK(!send(4));
  harness.Forget();
  harness.Tick(std::chrono::milliseconds(20));
  CHECK(harness.Take<Progress>(kCoordinator).at(0).reports.size() == 3);
}

TEST_CASE("async: a pull gives the newest of each block with the block's own version", "[server][async]") {
  ShardHarness harness(Async(1, {4, 4}));
  harness.Start();
  for (std::uint64_t k : {1U, 2U}) harness.Stage(k, 0, kLeaf0, 1, 1.0F);
  harness.Stage(1, 1, kLeaf0, 1, 1.0F);
  for (std::uint64_t version : {std::uint64_t{0}, std::uint64_t{9}}) {
    harness.FromWorker(harness.MakePull(version, {0, 1}));
    const std::vector<Weights> weights = harness.Take<Weights>();
    REQUIRE(weights.size() == 2);
    CHECK(weights[0].version == Version{2});
    CHECK(weights[1].version == Version{1});
  }
}

TEST_CASE("async: a block that is being sent is not written; one that nobody holds is updated in place",
          "[server][async]") {
  ShardHarness harness(Async(1));
  harness.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  const std::byte* const place = harness.shard->store().Weights(0).data;
  harness.Stage(2, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.shard->store().Weights(0).data == place);
  harness.FromWorker(harness.MakePull(0, {0}));
  const Weights weights = harness.Take<Weights>().at(0);
  for (std::uint64_t k : {3U, 4U, 5U}) harness.Stage(k, 0, kLeaf0, 1, 1.0F);
  CHECK(Hash64(harness.payloads.back().bytes()) == weights.payload_hash);
  CHECK(harness.payloads.back().data == place);
  CHECK(harness.WeightOf(0) == -5.0F);
  harness.payloads.clear();
  harness.FromWorker(harness.MakePull(0, {0}));
  CHECK(harness.Take<Weights>().at(0).payload_hash != weights.payload_hash);  // of the bytes sent now
  CHECK(Hash64(harness.payloads.back().bytes()) != weights.payload_hash);
}

TEST_CASE("async: a lent payload is applied at once, and one that changes is not", "[server][async]") {
  ShardHarness harness(Async(1));
  harness.Start();
  REQUIRE(harness.Lend(1, 0, kLeaf0, 1, 1.0F));
  CHECK(harness.WeightOf(0) == -1.0F);
  CHECK(harness.Take<Staged>().at(0).nodes == std::vector<Staged::Entry>{{0, kLeaf0}});
  const std::uint64_t digest = harness.shard->store().Digest();
  REQUIRE(harness.Lend(2, 0, kLeaf0, 1, 1.0F, true));
  CHECK(harness.Refused(Code::kCorrupt));
  CHECK(harness.metrics->pushes_corrupt.value() == 1);
  CHECK(harness.shard->store().Digest() == digest);
  CHECK(harness.shard->engine().updates(0) == 1);
  harness.Stage(2, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.WeightOf(0) == -2.0F);
  harness.FromWorker(harness.MakePull(0, {0}));
  const Weights weights = harness.Take<Weights>().at(0);
  CHECK(Hash64(harness.payloads.back().bytes()) == weights.payload_hash);
}

TEST_CASE("async: a shard keeps a copy of what it logs, and of what changes optimizer states", "[server][async]") {
  ShardHarnessOptions options = Async(1);
  options.optimizer = OptimizerKind::kAdam;
  CHECK_FALSE(ShardHarness(options).Start().Lend(1, 0, kLeaf0, 1, 1.0F));
  options = Async(1);
  options.acknowledge = Acknowledge::kDurable;
  CHECK_FALSE(ShardHarness(options).Start().Lend(1, 0, kLeaf0, 1, 1.0F));
}

TEST_CASE("async: steps are neither prepared nor committed", "[server][async]") {
  ShardHarness harness(Async(1));
  harness.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  harness.FromWorker(harness.MakeEnd(1, 0));
  CHECK(!harness.shard->engine().prepared());
  harness.Commits(0);
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.5F));
  CHECK(harness.shard->version() == Version{0});
  CHECK(harness.WeightOf(0) == -1.0F);
}

}  // namespace
}  // namespace capstan::server
