// First weights from a worker: the first copy counts, and no weight is visible before version 0 is on disk.
#include <cstring>
#include <limits>

#include "common/wire/messages/reset.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

using namespace capstan;
using namespace capstan::server;

namespace {

constexpr SnapshotId kVersion0{Generation{1}, Version{0}};

// A shard with three blocks. Two small tensors share block 0, and a worker gives the second one. A worker gives block
// 1. Block 2 is not given.
class FirstWeightsHarness : public ShardHarness {
 public:
  explicit FirstWeightsHarness(Mode mode = Mode::kSync, Acknowledge acknowledge = Acknowledge::kReceived)
      : ShardHarness(
            {.mode = mode, .slots = 1, .tensors = {2, 2, 4, 4}, .block_elements = 16, .acknowledge = acknowledge}) {}

  Reset MakeGivenReset(std::uint64_t to_generation = 1) const {
    Reset reset = MakeReset(to_generation);
    reset.catalog[0].init = {InitKind::kOnes, 0.0F};
    reset.catalog[1].init.kind = reset.catalog[2].init.kind = InitKind::kFromWorker;
    return reset;
  }
  FirstWeightsHarness& Begin(std::uint64_t to_generation = 1) {
    generation = Generation{to_generation};
    FromCoordinator(MakeGivenReset(to_generation));
    Forget();
    return *this;
  }
  UploadBlock MakeAssign(BlockIndex block, const Slice& payload) const {
    return {generation, Incarnation{7}, SessionId{1}, block, Hash64(payload.bytes())};
  }
  void Give(BlockIndex block, float value, PeerId from = kWorker) {
    Slice payload = Values(4, value);
    const UploadBlock upload = MakeAssign(block, payload);
    FromWorker(upload, std::move(payload), from);
  }
  void GiveAll(float value = 5.0F) {
    Give(0, value);
    Give(1, value);
  }
  // Returns the blocks acknowledged since the last call.
  std::vector<BlockIndex> Acknowledged() {
    std::vector<BlockIndex> blocks;
    for (const UploadAck& ack : Take<UploadAck>()) {
      blocks.insert(blocks.end(), ack.blocks.begin(), ack.blocks.end());
    }
    return blocks;
  }
  void PinVersion0() { FromCoordinator(MakePin(0)); }
  void KeepVersion0() { FromCoordinator(MakeRetained({{generation, Version{0}}}, {generation, Version{0}})); }
  std::vector<float> WeightsOf(std::size_t index) const {
    const Slice slice = shard->store().Weights(index);
    std::vector<float> values(slice.size / sizeof(float));
    std::memcpy(values.data(), slice.data, slice.size);
    return values;
  }
};

const float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("given weights are copied into their tensors, and a neighbour in the block keeps its own",
          "[server][given]") {
  FirstWeightsHarness harness;
  harness.Begin();
  harness.Give(0, 5.0F);
  CHECK(harness.WeightsOf(0) == std::vector<float>{1, 1, 5, 5});
  CHECK(harness.Acknowledged() == std::vector<BlockIndex>{0});
}

TEST_CASE("the first weights of a block count, and later ones are only acknowledged", "[server][given]") {
  FirstWeightsHarness harness;
  harness.Begin();
  harness.Give(1, 5.0F);
  harness.Give(1, 6.0F);
  CHECK(harness.WeightsOf(1) == std::vector<float>{5, 5, 5, 5});
  CHECK(harness.Acknowledged() == std::vector<BlockIndex>{1, 1});
}

TEST_CASE("nobody sees a weight before version 0 is kept", "[server][given]") {
  for (Mode mode : {Mode::kSync, Mode::kBounded, Mode::kAsync}) {
    FirstWeightsHarness harness(mode);
    harness.Begin();
    CHECK(harness.shard->awaits_first_weights());
    harness.FromWorker(harness.MakePull(0, {0, 1, 2}));
    harness.GiveAll();
    CHECK(harness.Take<Weights>().empty());
    harness.PinVersion0();
    CHECK(harness.Take<Weights>().empty());
    CHECK(harness.Take<SnapshotDone>(ShardHarness::kCoordinator).size() == 1);
    harness.KeepVersion0();
    CHECK(harness.Take<Weights>().size() == 3);
    CHECK_FALSE(harness.shard->awaits_first_weights());
    harness.FromWorker(harness.MakePull(0, {1}));
    CHECK(harness.Take<Weights>().size() == 1);
  }
}

TEST_CASE("no push and no end of a slot counts before version 0 is kept", "[server][given]") {
  for (Mode mode : {Mode::kSync, Mode::kBounded, Mode::kAsync}) {
    const std::uint64_t first = mode == Mode::kSync ? 0 : 1;
    FirstWeightsHarness harness(mode);
    harness.Begin().GiveAll();
    harness.Forget();
    const Slice payload = harness.Values(4, 1.0F);
    harness.FromWorker(harness.MakePush(first, 1, {0, 1}, 1, payload), payload);
    CHECK(harness.Refused(Code::kBusy));
    harness.FromWorker(harness.MakeEnd(first, 0));
    CHECK(harness.Refused(Code::kBusy));
    harness.PinVersion0();
    harness.KeepVersion0();
    harness.Forget();
    harness.FromWorker(harness.MakePush(first, 1, {0, 1}, 1, payload), payload);
    CHECK(harness.Take<Error>().empty());
    CHECK(harness.Take<Staged>().size() == 1);
  }
}

TEST_CASE("version 0 is written once its last block is there", "[server][given]") {
  FirstWeightsHarness harness;
  harness.Begin();
  harness.PinVersion0();
  harness.Give(1, 5.0F);
  CHECK(harness.Take<SnapshotDone>(ShardHarness::kCoordinator).empty());
  harness.Give(0, 5.0F);
  const std::vector<SnapshotDone> done = harness.Take<SnapshotDone>(ShardHarness::kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].failure.empty());
  CHECK(done[0].version == Version{0});
  CHECK(harness.disk.List().size() == 1);
  harness.PinVersion0();  // the answer was lost
  CHECK(harness.Take<SnapshotDone>(ShardHarness::kCoordinator).size() == 1);
}

TEST_CASE("version 0 waits for the disk to let go of one that was given up", "[server][given]") {
  FirstWeightsHarness harness;
  harness.HoldDisk();
  harness.FromCoordinator(harness.MakeGivenReset(1));
  harness.LetDiskGo();
  harness.HoldDisk();
  harness.GiveAll(5.0F);
  harness.PinVersion0();
  harness.generation = Generation{2};
  harness.FromCoordinator(harness.MakeGivenReset(2));
  harness.LetDiskGo();  // version 0 of generation 1 was cancelled, generation 2 begins
  CHECK(harness.shard->serving());
  harness.GiveAll(6.0F);
  harness.PinVersion0();
  const std::vector<SnapshotDone> done = harness.Take<SnapshotDone>(ShardHarness::kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].generation == Generation{2});
  CHECK(done[0].failure.empty());
  CHECK(harness.WeightsOf(1) == std::vector<float>{6, 6, 6, 6});
}

TEST_CASE("what cannot be first weights is refused, and names the block", "[server][given]") {
  FirstWeightsHarness harness;
  harness.Begin();
  const auto refusal = [&](UploadBlock upload, Slice payload) {
    harness.FromWorker(upload, std::move(payload));
    const std::vector<Error> errors = harness.Take<Error>();
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].block == upload.block);
    CHECK(errors[0].message.find("block " + std::to_string(upload.block)) != std::string::npos);
    return errors[0].code;
  };
  const Slice whole = harness.Values(4, 1.0F), half = harness.Values(2, 1.0F), bad = harness.Values(4, kNan);
  CHECK(refusal(harness.MakeAssign(9, whole), whole) == Code::kInvalid);
  CHECK(refusal(harness.MakeAssign(2, whole), whole) == Code::kInvalid);  // block 2 is not given
  CHECK(refusal(harness.MakeAssign(1, half), half) == Code::kInvalid);
  CHECK(refusal(harness.MakeAssign(1, bad), bad) == Code::kInvalid);
  CHECK(refusal(harness.MakeAssign(1, half), whole) == Code::kCorrupt);
  CHECK(harness.WeightsOf(1) == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("first weights of an older generation are refused: those of two workers never meet", "[server][given]") {
  FirstWeightsHarness harness;
  harness.Begin().Give(0, 5.0F);
  const Slice late = harness.Values(4, 5.0F);
  const UploadBlock of_before = harness.MakeAssign(1, late);
  harness.Begin(2);
  CHECK(harness.WeightsOf(0) == std::vector<float>{1, 1, 0, 0});
  harness.FromWorker(of_before, late);
  CHECK(harness.Refused(Code::kStale));
  harness.GiveAll(6.0F);
  CHECK(harness.WeightsOf(0) == std::vector<float>{1, 1, 6, 6});
  CHECK(harness.WeightsOf(1) == std::vector<float>{6, 6, 6, 6});
}

TEST_CASE("what is loaded from a snapshot has its first weights", "[server][given]") {
  FirstWeightsHarness before;
  before.Begin().GiveAll(5.0F);
  before.PinVersion0();
  before.KeepVersion0();
  FirstWeightsHarness harness;
  harness.disk.AddPartsOf(before.disk);
  const std::vector<SnapshotPart> parts = before.disk.List();
  ShardHarness after({.slots = 1, .tensors = {2, 2, 4, 4}, .block_elements = 16, .found = &before.disk});
  Reset reset = before.MakeGivenReset(2);
  reset.snapshot = kVersion0;
  reset.sources = {{parts[0].digest, ShardHarness::EndpointOf(0)}};
  after.generation = Generation{2};
  after.FromCoordinator(reset);
  after.Forget();
  CHECK_FALSE(after.shard->awaits_first_weights());
  CHECK(after.WeightOf(1) == 5.0F);
  after.FromWorker(after.MakePull(0, {1}));
  CHECK(after.Take<Weights>().size() == 1);
  Slice payload = after.Values(4, 7.0F);
  after.FromWorker(UploadBlock{Generation{2}, Incarnation{7}, SessionId{1}, 1, Hash64(payload.bytes())}, payload);
  CHECK(after.Take<UploadAck>().size() == 1);
  CHECK(after.WeightOf(1) == 5.0F);
}

TEST_CASE("a timeline that goes on has kept its version 0, though the word of it was lost", "[server][given]") {
  FirstWeightsHarness harness(Mode::kAsync, Acknowledge::kDurable);
  harness.Begin().GiveAll();
  harness.PinVersion0();
  harness.FromWorker(harness.MakePull(0, {1}));
  Reset reset = harness.MakeGivenReset(2);
  reset.timeline = TimelineId{1};
  reset.snapshot = kVersion0;
  reset.sources = {{1, ShardHarness::EndpointOf(0)}};
  harness.generation = Generation{2};
  harness.FromCoordinator(reset);
  CHECK_FALSE(harness.shard->awaits_first_weights());
}

TEST_CASE("a job without given weights takes none", "[server][given]") {
  ShardHarness harness;
  harness.Start();
  CHECK_FALSE(harness.shard->awaits_first_weights());
  const Slice payload = harness.Values(4, 1.0F);
  harness.FromWorker(UploadBlock{Generation{1}, Incarnation{7}, SessionId{1}, 0, Hash64(payload.bytes())}, payload);
  CHECK(harness.Refused(Code::kInvalid));
}
