// Mode allreduce on a shard: steps whose weights the workers compute, and versions that they upload.
#include "common/wire/messages/assign.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_bench.h"

using namespace capstan;
using namespace capstan::server;

namespace {

// A shard with two blocks and two slots. With momentum each block has two arrays.
class MadeBench : public ShardBench {
 public:
  MadeBench()
      : ShardBench({.mode = Mode::kAllReduce, .slots = 2, .tensors = {4, 2}, .optimizer = OptimizerKind::kMomentum}) {
    Reset reset = MakeReset();
    FromCoordinator(reset);
    Forget();
  }
  void EndAll(std::uint64_t step) {
    for (SlotIndex slot : {0U, 1U}) FromWorker(MakeEnd(step, slot));
  }
  bool IsPrepared() { return Take<Prepared>(kCoordinator).size() == 1; }
  // Commits a step. `held`: the shard has the version of the next step. `keep`: the workers are to upload the version
  // that the next step makes.
  void CommitStep(std::uint64_t step, bool held, bool keep) {
    Commit commit = MakeCommit(step);
    commit.next.held = held;
    commit.next.keep = keep;
    FromCoordinator(commit);
  }
  Assign MakeAssign(std::uint64_t step, BlockIndex block, std::uint32_t array, const Slice& payload) const {
    return {generation, Incarnation{7}, SessionId{1}, block, Hash64(payload.bytes()), Step{step}, array};
  }
  void Give(std::uint64_t step, BlockIndex block, std::uint32_t array, float value, PeerId from = kWorker) {
    Slice payload = Values(SizeOf(block), value);
    const Assign assign = MakeAssign(step, block, array, payload);
    FromWorker(assign, std::move(payload), from);
  }
  std::vector<BlockIndex> Acknowledged(std::uint64_t step) {
    std::vector<BlockIndex> blocks;
    for (const Assigned& assigned : Take<Assigned>()) {
      if (assigned.step.value == step) blocks.insert(blocks.end(), assigned.blocks.begin(), assigned.blocks.end());
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
  MadeBench bench;
  bench.FromWorker(bench.MakeEnd(0, 0));
  CHECK_FALSE(bench.IsPrepared());
  bench.FromWorker(bench.MakeEnd(0, 1));
  const std::vector<Prepared> prepared = bench.Take<Prepared>(ShardBench::kCoordinator);
  REQUIRE(prepared.size() == 1);
  CHECK(prepared[0].report.slots.size() == 2);
  CHECK(prepared[0].report.block_samples.empty());
  bench.CommitStep(0, false, false);
  CHECK(bench.shard->version() == Version{1});
  CHECK(bench.WeightOf(0) == 0.0F);
}

TEST_CASE("a shard where no slot ends is prepared at once, also when the job goes on in another generation",
          "[server][allreduce]") {
  ShardBench bench({.mode = Mode::kAllReduce, .shard = 1, .shard_count = 2, .slots = 1, .tensors = {4, 4}});
  bench.FromCoordinator(bench.MakeReset());
  CHECK(bench.Take<Prepared>(ShardBench::kCoordinator).size() == 1);
  Reset reset = bench.MakeReset(2);
  reset.history = Generation{1};
  bench.FromCoordinator(reset);
  const std::vector<Prepared> prepared = bench.Take<Prepared>(ShardBench::kCoordinator);
  REQUIRE(prepared.size() == 1);
  CHECK(prepared[0].generation == Generation{2});
}

TEST_CASE("a version that is being written is written also when the group changes", "[server][allreduce][snapshot]") {
  MadeBench bench;
  bench.ToStepThatKeeps();
  for (const BlockIndex block : {0U, 1U}) {
    for (const std::uint32_t array : {0U, 1U}) bench.Give(1, block, array, 3.0F);
  }
  bench.EndAll(1);
  bench.HoldDisk();
  Commit commit = bench.MakeCommit(1);
  commit.next.held = commit.next.snapshot = true;
  bench.FromCoordinator(commit);
  Reset reset = bench.MakeReset(2);
  reset.history = Generation{1};
  bench.FromCoordinator(reset);
  bench.generation = Generation{2};
  bench.LetDiskGo();
  REQUIRE(bench.Take<ResetDone>(kCoordinator).size() == 1);
  std::vector<SnapshotDone> done = bench.Take<SnapshotDone>(kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].failure.empty());
  CHECK(done[0].generation == Generation{1});
  CHECK(done[0].version == Version{2});
  bench.FromCoordinator(bench.MakeKept({}, {}));  // the manifest is not written yet
  CHECK(bench.disk.List().size() == 1);
  bench.FromCoordinator(bench.MakePin(2));
  done = bench.Take<SnapshotDone>(kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].generation == Generation{1});
  CHECK(done[0].failure.empty());
  bench.generation = Generation{3};
  reset.generation = Generation{3};
  bench.FromCoordinator(reset);  // the group changes again before the coordinator knows
  bench.Forget();
  bench.Tick(std::chrono::seconds(7));
  done = bench.Take<SnapshotDone>(kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].generation == Generation{1});
  const SnapshotId id{Generation{1}, Version{2}};
  bench.FromCoordinator(bench.MakeKept({id}, id));
  bench.Forget();
  bench.Tick(std::chrono::seconds(7));
  CHECK(bench.Take<SnapshotDone>(kCoordinator).empty());
  CHECK(bench.disk.List().size() == 1);
}

TEST_CASE("weights that the workers alone have are not handed out", "[server][allreduce]") {
  MadeBench bench;
  bench.FromWorker(bench.MakePull(0, {0}));
  CHECK(bench.Take<Weights>().size() == 1);
  bench.FromWorker(bench.MakePull(1, {0}));  // waits
  bench.EndAll(0);
  bench.Forget();
  bench.CommitStep(0, false, false);
  const std::vector<Error> errors = bench.Take<Error>();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kStale);
  CHECK(errors[0].step == Step{1});
  CHECK(bench.Take<Weights>().empty());
}

TEST_CASE("a version that is held is handed out until the next one is, whatever the step", "[server][allreduce]") {
  MadeBench bench;
  bench.EndAll(0);
  bench.CommitStep(0, false, false);
  bench.Forget();
  bench.FromWorker(bench.MakePull(0, {0, 1}));
  std::vector<Weights> weights = bench.Take<Weights>();
  REQUIRE(weights.size() == 2);
  CHECK(weights[0].version == Version{0});
  CHECK(weights[0].updates == 0);
  bench.EndAll(1);
  bench.CommitStep(1, true, false);
  bench.Forget();
  bench.FromWorker(bench.MakePull(0, {0}));
  CHECK(bench.Refused(Code::kStale));
  bench.FromWorker(bench.MakePull(2, {0}));
  weights = bench.Take<Weights>();
  REQUIRE(weights.size() == 1);
  CHECK(weights[0].version == Version{2});
  CHECK(weights[0].updates == 2);
}

TEST_CASE("a worker that asks for the word alone hears what the next step needs", "[server][allreduce]") {
  MadeBench bench;
  Pull pull = bench.MakePull(1, {});
  pull.follows = true;
  bench.FromWorker(pull);
  bench.EndAll(0);
  bench.Forget();
  bench.CommitStep(0, false, true);
  const std::vector<Published> published = bench.Take<Published>();
  REQUIRE(published.size() == 1);
  CHECK(published[0].version == Version{1});
  CHECK(published[0].learning_rate == 1.0F);
  CHECK(published[0].keep);
  CHECK_FALSE(published[0].held);
  CHECK(published[0].made_in == Generation{1});
}

TEST_CASE("a version that is kept is prepared when all its arrays are there, whoever gave them",
          "[server][allreduce]") {
  MadeBench bench;
  bench.ToStepThatKeeps();
  bench.EndAll(1);
  bench.Give(1, 0, 0, 3.0F);
  CHECK(bench.Acknowledged(1).empty());
  bench.Give(1, 0, 1, 4.0F, ShardBench::kOther);
  CHECK(bench.Take<Assigned>(ShardBench::kOther).at(0).blocks == std::vector<BlockIndex>{0});
  bench.Give(1, 0, 0, 9.0F);  // the first one counts
  CHECK(bench.Acknowledged(1) == std::vector<BlockIndex>{0});
  CHECK_FALSE(bench.IsPrepared());
  bench.Give(1, 1, 1, 6.0F);
  bench.Give(1, 1, 0, 5.0F);
  CHECK(bench.Acknowledged(1) == std::vector<BlockIndex>{1});
  CHECK(bench.IsPrepared());
  CHECK(bench.WeightOf(0) == 0.0F);  // until the step is committed
  bench.CommitStep(1, true, false);
  CHECK(bench.WeightOf(0) == 3.0F);
  CHECK(bench.WeightOf(1) == 5.0F);
  CHECK(*reinterpret_cast<const float*>(bench.shard->store().Arrays(0)[1].data) == 4.0F);
  bench.FromWorker(bench.MakePull(2, {0, 1}));
  CHECK(bench.Take<Weights>().size() == 2);
}

TEST_CASE("a skipped step's version is kept as it was given", "[server][allreduce]") {
  MadeBench bench;
  bench.ToStepThatKeeps();
  bench.EndAll(1);
  for (BlockIndex block : {0U, 1U}) {
    for (std::uint32_t array : {0U, 1U}) bench.Give(1, block, array, 2.0F);
  }
  Commit commit = bench.MakeCommit(1, 0, StepAction::kSkip);
  bench.FromCoordinator(commit);
  CHECK(bench.WeightOf(0) == 2.0F);
}

TEST_CASE("what is given wrongly is refused, and what is late is acknowledged", "[server][allreduce]") {
  MadeBench bench;
  bench.Give(0, 0, 0, 1.0F);
  CHECK(bench.Refused(Code::kInvalid));  // the workers are not to upload this version
  bench.ToStepThatKeeps();
  bench.Give(2, 0, 0, 1.0F);
  CHECK(bench.Refused(Code::kBusy));
  bench.Give(1, 0, 2, 1.0F);
  CHECK(bench.Refused(Code::kInvalid));  // momentum has one state
  const Slice short_one = bench.Values(2, 1.0F), whole = bench.Values(4, 1.0F);
  bench.FromWorker(bench.MakeAssign(1, 0, 0, short_one), short_one);
  CHECK(bench.Refused(Code::kInvalid));
  bench.FromWorker(bench.MakeAssign(1, 7, 0, whole), whole);
  CHECK(bench.Refused(Code::kInvalid));
  Assign damaged = bench.MakeAssign(1, 0, 0, whole);
  ++damaged.payload_hash;
  bench.FromWorker(damaged, whole);
  CHECK(bench.Refused(Code::kCorrupt));
  bench.Give(0, 1, 0, 1.0F);
  CHECK(bench.Acknowledged(0) == std::vector<BlockIndex>{1});
}

TEST_CASE("another group of workers begins the step under way anew, and nothing goes back", "[server][allreduce]") {
  MadeBench bench;
  bench.ToStepThatKeeps();
  bench.FromWorker(bench.MakeEnd(1, 0));
  bench.Give(1, 0, 0, 3.0F);
  bench.Give(1, 0, 1, 3.0F);
  Reset reset = bench.MakeReset(2);
  reset.history = Generation{1};
  bench.FromCoordinator(reset);
  CHECK(bench.Take<ResetDone>(ShardBench::kCoordinator).size() == 1);
  bench.generation = Generation{2};
  CHECK(bench.shard->version() == Version{1});
  CHECK(bench.Coverage(1).ended.empty());
  bench.EndAll(1);
  CHECK_FALSE(bench.IsPrepared());  // the blocks must come again
  for (BlockIndex block : {0U, 1U}) {
    for (std::uint32_t array : {0U, 1U}) bench.Give(1, block, array, 8.0F);
  }
  CHECK(bench.IsPrepared());
  bench.CommitStep(1, true, false);
  CHECK(bench.WeightOf(0) == 8.0F);
}
