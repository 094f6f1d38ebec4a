// Mode allreduce on a shard: steps whose weights the workers compute, and versions that they upload.
#include "common/wire/messages/commit.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

using namespace capstan;
using namespace capstan::server;

namespace {

// A shard with two blocks and two slots. With momentum each block has two arrays.
class ReplicaUploadHarness : public ShardHarness {
 public:
  ReplicaUploadHarness()
      : ShardHarness({.mode = Mode::kAllReduce, .slots = 2, .tensors = {4, 2}, .optimizer = OptimizerKind::kMomentum}) {
    Reset reset = MakeReset();
    FromCoordinator(reset);
    Forget();
  }
  void EndAll(std::uint64_t step) {
    for (SlotIndex slot : {0U, 1U}) FromWorker(MakeEnd(step, slot));
  }
  bool IsPrepared() { return Take<Prepared>(kCoordinator).size() == 1; }
  // Commits a step. `on_shards`: the workers have uploaded the version that the step makes. `upload_next`: they are to
  // upload the version that the next step makes.
  void CommitStep(std::uint64_t step, bool on_shards, bool upload_next) {
    Commit commit = MakeCommit(step);
    commit.next.on_shards = on_shards;
    commit.next.upload_next = upload_next;
    FromCoordinator(commit);
  }
  UploadBlock MakeAssign(std::uint64_t step, BlockIndex block, std::uint32_t array, const Slice& payload) const {
    return {generation, Incarnation{7}, SessionId{1}, block, Hash64(payload.bytes()), Step{step}, array};
  }
  void Give(std::uint64_t step, BlockIndex block, std::uint32_t array, float value, PeerId from = kWorker) {
    Slice payload = Values(SizeOf(block), value);
    const UploadBlock upload = MakeAssign(step, block, array, payload);
    FromWorker(upload, std::move(payload), from);
  }
  std::vector<BlockIndex> Acknowledged(std::uint64_t step) {
    std::vector<BlockIndex> blocks;
    for (const UploadAck& ack : Take<UploadAck>()) {
      if (ack.step.value == step) blocks.insert(blocks.end(), ack.blocks.begin(), ack.blocks.end());
    }
    return blocks;
  }
  // Commits step 0. The shard does not get version 1; as part of step 1 the workers are to upload version 2.
  void ToStepThatKeeps() {
    EndAll(0);
    CommitStep(0, false, true);
    Forget();
  }
};

}  // namespace

TEST_CASE("a step whose version is not kept needs the ends of its slots alone", "[server][allreduce]") {
  ReplicaUploadHarness harness;
  harness.FromWorker(harness.MakeEnd(0, 0));
  CHECK_FALSE(harness.IsPrepared());
  harness.FromWorker(harness.MakeEnd(0, 1));
  const std::vector<Prepared> prepared = harness.Take<Prepared>(ShardHarness::kCoordinator);
  REQUIRE(prepared.size() == 1);
  CHECK(prepared[0].report.slots.size() == 2);
  CHECK(prepared[0].report.block_samples.empty());
  harness.CommitStep(0, false, false);
  CHECK(harness.shard->version() == Version{1});
  CHECK(harness.WeightOf(0) == 0.0F);
}

TEST_CASE("a shard where no slot ends is prepared at once, also when the job goes on in another generation",
          "[server][allreduce]") {
  ShardHarness harness({.mode = Mode::kAllReduce, .shard = 1, .shard_count = 2, .slots = 1, .tensors = {4, 4}});
  harness.FromCoordinator(harness.MakeReset());
  CHECK(harness.Take<Prepared>(ShardHarness::kCoordinator).size() == 1);
  Reset reset = harness.MakeReset(2);
  reset.timeline = TimelineId{1};
  harness.FromCoordinator(reset);
  const std::vector<Prepared> prepared = harness.Take<Prepared>(ShardHarness::kCoordinator);
  REQUIRE(prepared.size() == 1);
  CHECK(prepared[0].generation == Generation{2});
}

TEST_CASE("a version that is being written is written also when the group changes", "[server][allreduce][snapshot]") {
  ReplicaUploadHarness harness;
  harness.ToStepThatKeeps();
  for (const BlockIndex block : {0U, 1U}) {
    for (const std::uint32_t array : {0U, 1U}) harness.Give(1, block, array, 3.0F);
  }
  harness.EndAll(1);
  harness.HoldDisk();
  Commit commit = harness.MakeCommit(1);
  commit.next.on_shards = commit.next.snapshot = true;
  harness.FromCoordinator(commit);
  Reset reset = harness.MakeReset(2);
  reset.timeline = TimelineId{1};
  harness.FromCoordinator(reset);
  harness.generation = Generation{2};
  harness.LetDiskGo();
  REQUIRE(harness.Take<ResetDone>(kCoordinator).size() == 1);
  std::vector<SnapshotDone> done = harness.Take<SnapshotDone>(kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].failure.empty());
  CHECK(done[0].generation == Generation{1});
  CHECK(done[0].version == Version{2});
  harness.FromCoordinator(harness.MakeRetained({}, {}));  // the manifest is not written yet
  CHECK(harness.disk.List().size() == 1);
  harness.FromCoordinator(harness.MakePin(2));
  done = harness.Take<SnapshotDone>(kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].generation == Generation{1});
  CHECK(done[0].failure.empty());
  harness.generation = Generation{3};
  reset.generation = Generation{3};
  harness.FromCoordinator(reset);  // the group changes again before the coordinator knows
  harness.Forget();
  harness.Tick(std::chrono::seconds(7));
  done = harness.Take<SnapshotDone>(kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].generation == Generation{1});
  const SnapshotId id{Generation{1}, Version{2}};
  harness.FromCoordinator(harness.MakeRetained({id}, id));
  harness.Forget();
  harness.Tick(std::chrono::seconds(7));
  CHECK(harness.Take<SnapshotDone>(kCoordinator).empty());
  CHECK(harness.disk.List().size() == 1);
}

TEST_CASE("a snapshot that another group's coordinator asks for has the name of its timeline",
          "[server][allreduce][snapshot]") {
  ReplicaUploadHarness harness;
  Reset reset = harness.MakeReset(2);
  reset.timeline = TimelineId{1};
  harness.FromCoordinator(reset);
  harness.generation = Generation{2};
  harness.Forget();
  harness.FromCoordinator(harness.MakePin(0));
  const std::vector<SnapshotDone> done = harness.Take<SnapshotDone>(kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].failure.empty());
  CHECK(done[0].generation == Generation{1});
}

TEST_CASE("weights that the workers alone have are not handed out", "[server][allreduce]") {
  ReplicaUploadHarness harness;
  harness.FromWorker(harness.MakePull(0, {0}));
  CHECK(harness.Take<Weights>().size() == 1);
  harness.FromWorker(harness.MakePull(1, {0}));  // waits
  harness.EndAll(0);
  harness.Forget();
  harness.CommitStep(0, false, false);
  const std::vector<Error> errors = harness.Take<Error>();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kStale);
  CHECK(errors[0].step == Step{1});
  CHECK(harness.Take<Weights>().empty());
}

TEST_CASE("a version that is held is handed out until the next one is, whatever the step", "[server][allreduce]") {
  ReplicaUploadHarness harness;
  harness.EndAll(0);
  harness.CommitStep(0, false, false);
  harness.Forget();
  harness.FromWorker(harness.MakePull(0, {0, 1}));
  std::vector<Weights> weights = harness.Take<Weights>();
  REQUIRE(weights.size() == 2);
  CHECK(weights[0].version == Version{0});
  CHECK(weights[0].updates == 0);
  harness.EndAll(1);
  harness.CommitStep(1, true, false);
  harness.Forget();
  harness.FromWorker(harness.MakePull(0, {0}));
  CHECK(harness.Refused(Code::kStale));
  harness.FromWorker(harness.MakePull(2, {0}));
  weights = harness.Take<Weights>();
  REQUIRE(weights.size() == 1);
  CHECK(weights[0].version == Version{2});
  CHECK(weights[0].updates == 2);
}

TEST_CASE("a worker that asks for the word alone hears what the next step needs", "[server][allreduce]") {
  ReplicaUploadHarness harness;
  Pull pull = harness.MakePull(1, {});
  pull.follows = true;
  harness.FromWorker(pull);
  harness.EndAll(0);
  harness.Forget();
  harness.CommitStep(0, false, true);
  const std::vector<Published> published = harness.Take<Published>();
  REQUIRE(published.size() == 1);
  CHECK(published[0].version == Version{1});
  CHECK(published[0].learning_rate == 1.0F);
  CHECK(published[0].upload_next);
  CHECK_FALSE(published[0].on_shards);
  CHECK(published[0].made_in == Generation{1});
}

TEST_CASE("a version that is kept is prepared when all its arrays are there, whoever gave them",
          "[server][allreduce]") {
  ReplicaUploadHarness harness;
  harness.ToStepThatKeeps();
  harness.EndAll(1);
  harness.Give(1, 0, 0, 3.0F);
  CHECK(harness.Acknowledged(1).empty());
  harness.Give(1, 0, 1, 4.0F, ShardHarness::kOther);
  CHECK(harness.Take<UploadAck>(ShardHarness::kOther).at(0).blocks == std::vector<BlockIndex>{0});
  harness.Give(1, 0, 0, 9.0F);  // the first one counts
  CHECK(harness.Acknowledged(1) == std::vector<BlockIndex>{0});
  CHECK_FALSE(harness.IsPrepared());
  harness.Give(1, 1, 1, 6.0F);
  harness.Give(1, 1, 0, 5.0F);
  CHECK(harness.Acknowledged(1) == std::vector<BlockIndex>{1});
  CHECK(harness.IsPrepared());
  CHECK(harness.WeightOf(0) == 0.0F);  // until the step is committed
  harness.CommitStep(1, true, false);
  CHECK(harness.WeightOf(0) == 3.0F);
  CHECK(harness.WeightOf(1) == 5.0F);
  CHECK(*reinterpret_cast<const float*>(harness.shard->store().Arrays(0)[1].data) == 4.0F);
  harness.FromWorker(harness.MakePull(2, {0, 1}));
  CHECK(harness.Take<Weights>().size() == 2);
}

TEST_CASE("a skipped step's version is kept as it was given", "[server][allreduce]") {
  ReplicaUploadHarness harness;
  harness.ToStepThatKeeps();
  harness.EndAll(1);
  for (BlockIndex block : {0U, 1U}) {
    for (std::uint32_t array : {0U, 1U}) harness.Give(1, block, array, 2.0F);
  }
  Commit commit = harness.MakeCommit(1, 0, StepAction::kSkip);
  harness.FromCoordinator(commit);
  CHECK(harness.WeightOf(0) == 2.0F);
}

TEST_CASE("what is given wrongly is refused, and what is late is acknowledged", "[server][allreduce]") {
  ReplicaUploadHarness harness;
  harness.Give(0, 0, 0, 1.0F);
  CHECK(harness.Refused(Code::kInvalid));  // the workers are not to upload this version
  harness.ToStepThatKeeps();
  harness.Give(2, 0, 0, 1.0F);
  CHECK(harness.Refused(Code::kBusy));
  harness.Give(1, 0, 2, 1.0F);
  CHECK(harness.Refused(Code::kInvalid));  // momentum has one state
  const Slice short_one = harness.Values(2, 1.0F), whole = harness.Values(4, 1.0F);
  harness.FromWorker(harness.MakeAssign(1, 0, 0, short_one), short_one);
  CHECK(harness.Refused(Code::kInvalid));
  harness.FromWorker(harness.MakeAssign(1, 7, 0, whole), whole);
  CHECK(harness.Refused(Code::kInvalid));
  UploadBlock damaged = harness.MakeAssign(1, 0, 0, whole);
  ++damaged.payload_hash;
  harness.FromWorker(damaged, whole);
  CHECK(harness.Refused(Code::kCorrupt));
  harness.Give(0, 1, 0, 1.0F);
  CHECK(harness.Acknowledged(0) == std::vector<BlockIndex>{1});
}

TEST_CASE("another group of workers begins the step under way again, and nothing goes back", "[server][allreduce]") {
  ReplicaUploadHarness harness;
  harness.ToStepThatKeeps();
  harness.FromWorker(harness.MakeEnd(1, 0));
  harness.Give(1, 0, 0, 3.0F);
  harness.Give(1, 0, 1, 3.0F);
  Reset reset = harness.MakeReset(2);
  reset.timeline = TimelineId{1};
  harness.FromCoordinator(reset);
  CHECK(harness.Take<ResetDone>(ShardHarness::kCoordinator).size() == 1);
  harness.generation = Generation{2};
  CHECK(harness.shard->version() == Version{1});
  CHECK(harness.Coverage(1).ended.empty());
  harness.EndAll(1);
  CHECK_FALSE(harness.IsPrepared());  // the blocks must come again
  for (BlockIndex block : {0U, 1U}) {
    for (std::uint32_t array : {0U, 1U}) harness.Give(1, block, array, 8.0F);
  }
  CHECK(harness.IsPrepared());
  harness.CommitStep(1, true, false);
  CHECK(harness.WeightOf(0) == 8.0F);
}
