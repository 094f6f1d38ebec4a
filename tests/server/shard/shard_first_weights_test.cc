// First weights from a worker: the first copy counts, and no weight is visible before version 0 is on disk.
#include <cstring>
#include <limits>

#include "common/wire/messages/assign.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_bench.h"

using namespace capstan;
using namespace capstan::server;

namespace {

constexpr SnapshotId kVersion0{Generation{1}, Version{0}};

// A shard with three blocks. Two small tensors share block 0, and a worker gives the second one. A worker gives block
// 1. Block 2 is not given.
class GivenBench : public ShardBench {
 public:
  explicit GivenBench(Mode mode = Mode::kSync, Acknowledge acknowledge = Acknowledge::kReceived)
      : ShardBench(
            {.mode = mode, .slots = 1, .tensors = {2, 2, 4, 4}, .block_elements = 16, .acknowledge = acknowledge}) {}

  Reset MakeGivenReset(std::uint64_t to_generation = 1) const {
    Reset reset = MakeReset(to_generation);
    reset.catalog[0].init = {InitKind::kOnes, 0.0F};
    reset.catalog[1].init.kind = reset.catalog[2].init.kind = InitKind::kGiven;
    return reset;
  }
  GivenBench& Begin(std::uint64_t to_generation = 1) {
    generation = Generation{to_generation};
    FromCoordinator(MakeGivenReset(to_generation));
    Forget();
    return *this;
  }
  Assign MakeAssign(BlockIndex block, const Slice& payload) const {
    return {generation, Incarnation{7}, SessionId{1}, block, Hash64(payload.bytes())};
  }
  void Give(BlockIndex block, float value, PeerId from = kWorker) {
    Slice payload = Values(4, value);
    const Assign assign = MakeAssign(block, payload);
    FromWorker(assign, std::move(payload), from);
  }
  void GiveAll(float value = 5.0F) {
    Give(0, value);
    Give(1, value);
  }
  // Returns the blocks acknowledged since the last call.
  std::vector<BlockIndex> Acknowledged() {
    std::vector<BlockIndex> blocks;
    for (const Assigned& assigned : Take<Assigned>()) {
      blocks.insert(blocks.end(), assigned.blocks.begin(), assigned.blocks.end());
    }
    return blocks;
  }
  void PinVersion0() { FromCoordinator(MakePin(0)); }
  void KeepVersion0() { FromCoordinator(MakeKept({{generation, Version{0}}}, {generation, Version{0}})); }
  std::vector<float> WeightsOf(std::size_t local) const {
    const Slice slice = shard->store().Weights(local);
    std::vector<float> values(slice.size / sizeof(float));
    std::memcpy(values.data(), slice.data, slice.size);
    return values;
  }
};

const float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("given weights are copied into their tensors, and a neighbour in the block keeps its own",
          "[server][given]") {
  GivenBench bench;
  bench.Begin();
  bench.Give(0, 5.0F);
  CHECK(bench.WeightsOf(0) == std::vector<float>{1, 1, 5, 5});
  CHECK(bench.Acknowledged() == std::vector<BlockIndex>{0});
}

TEST_CASE("the first weights of a block count, and later ones are only acknowledged", "[server][given]") {
  GivenBench bench;
  bench.Begin();
  bench.Give(1, 5.0F);
  bench.Give(1, 6.0F);
  CHECK(bench.WeightsOf(1) == std::vector<float>{5, 5, 5, 5});
  CHECK(bench.Acknowledged() == std::vector<BlockIndex>{1, 1});
}

TEST_CASE("nobody sees a weight before version 0 is kept", "[server][given]") {
  for (Mode mode : {Mode::kSync, Mode::kBounded, Mode::kAsync}) {
    GivenBench bench(mode);
    bench.Begin();
    CHECK(bench.shard->awaits_first_weights());
    bench.FromWorker(bench.MakePull(0, {0, 1, 2}));
    bench.GiveAll();
    CHECK(bench.Take<Weights>().empty());
    bench.PinVersion0();
    CHECK(bench.Take<Weights>().empty());
    CHECK(bench.Take<SnapshotDone>(ShardBench::kCoordinator).size() == 1);
    bench.KeepVersion0();
    CHECK(bench.Take<Weights>().size() == 3);
    CHECK_FALSE(bench.shard->awaits_first_weights());
    bench.FromWorker(bench.MakePull(0, {1}));
    CHECK(bench.Take<Weights>().size() == 1);
  }
}

TEST_CASE("no push and no end of a slot counts before version 0 is kept", "[server][given]") {
  for (Mode mode : {Mode::kSync, Mode::kBounded, Mode::kAsync}) {
    const std::uint64_t first = mode == Mode::kSync ? 0 : 1;
    GivenBench bench(mode);
    bench.Begin().GiveAll();
    bench.Forget();
    const Slice payload = bench.Values(4, 1.0F);
    bench.FromWorker(bench.MakePush(first, 1, {0, 1}, 1, payload), payload);
    CHECK(bench.Refused(Code::kBusy));
    bench.FromWorker(bench.MakeEnd(first, 0));
    CHECK(bench.Refused(Code::kBusy));
    bench.PinVersion0();
    bench.KeepVersion0();
    bench.Forget();
    bench.FromWorker(bench.MakePush(first, 1, {0, 1}, 1, payload), payload);
    CHECK(bench.Take<Error>().empty());
    CHECK(bench.Take<Staged>().size() == 1);
  }
}

TEST_CASE("version 0 is written once its last block is there", "[server][given]") {
  GivenBench bench;
  bench.Begin();
  bench.PinVersion0();
  bench.Give(1, 5.0F);
  CHECK(bench.Take<SnapshotDone>(ShardBench::kCoordinator).empty());
  bench.Give(0, 5.0F);
  const std::vector<SnapshotDone> done = bench.Take<SnapshotDone>(ShardBench::kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].failure.empty());
  CHECK(done[0].version == Version{0});
  CHECK(bench.disk.List().size() == 1);
  bench.PinVersion0();  // the answer was lost
  CHECK(bench.Take<SnapshotDone>(ShardBench::kCoordinator).size() == 1);
}

TEST_CASE("version 0 waits for the disk to let go of one that was given up", "[server][given]") {
  GivenBench bench;
  bench.HoldDisk();
  bench.FromCoordinator(bench.MakeGivenReset(1));
  bench.LetDiskGo();
  bench.HoldDisk();
  bench.GiveAll(5.0F);
  bench.PinVersion0();
  bench.generation = Generation{2};
  bench.FromCoordinator(bench.MakeGivenReset(2));
  bench.LetDiskGo();  // version 0 of generation 1 was cancelled, generation 2 begins
  CHECK(bench.shard->serving());
  bench.GiveAll(6.0F);
  bench.PinVersion0();
  const std::vector<SnapshotDone> done = bench.Take<SnapshotDone>(ShardBench::kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].generation == Generation{2});
  CHECK(done[0].failure.empty());
  CHECK(bench.WeightsOf(1) == std::vector<float>{6, 6, 6, 6});
}

TEST_CASE("what cannot be first weights is refused, and names the block", "[server][given]") {
  GivenBench bench;
  bench.Begin();
  const auto refusal = [&](Assign assign, Slice payload) {
    bench.FromWorker(assign, std::move(payload));
    const std::vector<Error> errors = bench.Take<Error>();
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].block == assign.block);
    CHECK(errors[0].message.find("block " + std::to_string(assign.block)) != std::string::npos);
    return errors[0].code;
  };
  const Slice whole = bench.Values(4, 1.0F), half = bench.Values(2, 1.0F), bad = bench.Values(4, kNan);
  CHECK(refusal(bench.MakeAssign(9, whole), whole) == Code::kInvalid);
  CHECK(refusal(bench.MakeAssign(2, whole), whole) == Code::kInvalid);  // it is not given
  CHECK(refusal(bench.MakeAssign(1, half), half) == Code::kInvalid);
  CHECK(refusal(bench.MakeAssign(1, bad), bad) == Code::kInvalid);
  CHECK(refusal(bench.MakeAssign(1, half), whole) == Code::kCorrupt);
  CHECK(bench.WeightsOf(1) == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("first weights of an older generation are refused: those of two workers never meet", "[server][given]") {
  GivenBench bench;
  bench.Begin().Give(0, 5.0F);
  const Slice late = bench.Values(4, 5.0F);
  const Assign of_before = bench.MakeAssign(1, late);
  bench.Begin(2);
  CHECK(bench.WeightsOf(0) == std::vector<float>{1, 1, 0, 0});
  bench.FromWorker(of_before, late);
  CHECK(bench.Refused(Code::kStale));
  bench.GiveAll(6.0F);
  CHECK(bench.WeightsOf(0) == std::vector<float>{1, 1, 6, 6});
  CHECK(bench.WeightsOf(1) == std::vector<float>{6, 6, 6, 6});
}

TEST_CASE("what is loaded from a snapshot has its first weights", "[server][given]") {
  GivenBench before;
  before.Begin().GiveAll(5.0F);
  before.PinVersion0();
  before.KeepVersion0();
  GivenBench bench;
  bench.disk.AddPartsOf(before.disk);
  const std::vector<SnapshotPart> parts = before.disk.List();
  ShardBench after({.slots = 1, .tensors = {2, 2, 4, 4}, .block_elements = 16, .found = &before.disk});
  Reset reset = before.MakeGivenReset(2);
  reset.snapshot = kVersion0;
  reset.sources = {{parts[0].digest, ShardBench::EndpointOf(0)}};
  after.generation = Generation{2};
  after.FromCoordinator(reset);
  after.Forget();
  CHECK_FALSE(after.shard->awaits_first_weights());
  CHECK(after.WeightOf(1) == 5.0F);
  after.FromWorker(after.MakePull(0, {1}));
  CHECK(after.Take<Weights>().size() == 1);
  Slice payload = after.Values(4, 7.0F);
  after.FromWorker(Assign{Generation{2}, Incarnation{7}, SessionId{1}, 1, Hash64(payload.bytes())}, payload);
  CHECK(after.Take<Assigned>().size() == 1);
  CHECK(after.WeightOf(1) == 5.0F);
}

TEST_CASE("a history that goes on has kept its version 0, though the word of it was lost", "[server][given]") {
  GivenBench bench(Mode::kAsync, Acknowledge::kDurable);
  bench.Begin().GiveAll();
  bench.PinVersion0();
  bench.FromWorker(bench.MakePull(0, {1}));
  Reset reset = bench.MakeGivenReset(2);
  reset.history = Generation{1};
  reset.snapshot = kVersion0;
  reset.sources = {{1, ShardBench::EndpointOf(0)}};
  bench.generation = Generation{2};
  bench.FromCoordinator(reset);
  CHECK_FALSE(bench.shard->awaits_first_weights());
}

TEST_CASE("a job without given weights takes none", "[server][given]") {
  ShardBench bench;
  bench.Start();
  CHECK_FALSE(bench.shard->awaits_first_weights());
  const Slice payload = bench.Values(4, 1.0F);
  bench.FromWorker(Assign{Generation{1}, Incarnation{7}, SessionId{1}, 0, Hash64(payload.bytes())}, payload);
  CHECK(bench.Refused(Code::kInvalid));
}
