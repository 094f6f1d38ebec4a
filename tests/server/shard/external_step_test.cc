// A shard of a job whose optimizer stays in the program: steps that make the mean gradient, and versions that a worker
// uploads.
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

// A shard with two blocks and two slots; a version has two arrays.
class ExternalHarness : public ShardHarness {
 public:
  ExternalHarness()
      : ShardHarness({.slots = 2, .tensors = {4, 2}, .optimizer = OptimizerKind::kExternal, .states = 1}) {
    Start();
  }
  // Commits a step. `snapshot`: the version that it makes is to be in a snapshot; `stop`: it is the last one.
  void CommitStep(std::uint64_t step, bool snapshot = false, bool stop = false) {
    Commit commit = MakeCommit(step);
    commit.next.on_shards = false;
    commit.next.snapshot = snapshot;
    commit.next.stop = stop;
    FromCoordinator(commit);
  }
  void ToVersion1(bool snapshot = false, bool stop = false) {
    CompleteStep(0, 3.0F);
    CommitStep(0, snapshot, stop);
  }
  void Give(std::uint64_t version, BlockIndex block, std::uint32_t array, float value, std::string state = {}) {
    Slice payload = Values(SizeOf(block), value);
    const UploadBlock upload{generation,    Incarnation{7}, session,         block, Hash64(payload.bytes()),
                             Step{version}, array,          std::move(state)};
    FromWorker(upload, std::move(payload));
  }
  void GiveAll(std::uint64_t version, float value) {
    for (BlockIndex block : {0U, 1U}) {
      for (std::uint32_t array : {0U, 1U}) {
        Give(version, block, array, value, block == 0 && array == 0 ? "the head" : "");
      }
    }
  }
  Pull MakeArrayPull(std::uint64_t version, std::uint32_t array) const {
    Pull pull = MakePull(version, {0});
    pull.array = array;
    return pull;
  }
  // Returns the first number of the only block that was sent since the last call.
  float Sent() {
    payloads.clear();
    newest = Take<Weights>();
    REQUIRE(newest.size() == 1);
    return *reinterpret_cast<const float*>(payloads.at(0).data);
  }

  std::vector<Weights> newest;
};

}  // namespace

TEST_CASE("a step publishes the mean gradient, and leaves the weights as they are", "[server][external]") {
  ExternalHarness harness;
  harness.ToVersion1();
  harness.Forget();
  harness.FromWorker(harness.MakeArrayPull(1, kMeanGradient));
  CHECK(harness.Sent() == 3.0F);
  CHECK(harness.newest[0].version == Version{1});
  CHECK(harness.newest[0].array == kMeanGradient);
  CHECK_FALSE(harness.newest[0].skipped);
  CHECK(harness.WeightOf(0) == 0.0F);
}

TEST_CASE("the gradient of a skipped step says so", "[server][external]") {
  ExternalHarness harness;
  harness.CompleteStep(0, 3.0F, 0);
  Commit commit = harness.MakeCommit(0, 0, StepAction::kSkip);
  commit.next.on_shards = false;
  harness.FromCoordinator(commit);
  harness.Forget();
  harness.FromWorker(harness.MakeArrayPull(1, kMeanGradient));
  (void)harness.Sent();
  CHECK(harness.newest[0].skipped);
}

TEST_CASE("a version that nobody has uploaded is waited for, and is gone with the next one", "[server][external]") {
  ExternalHarness harness;
  harness.ToVersion1();
  harness.Forget();
  harness.FromWorker(harness.MakeArrayPull(1, 0));
  CHECK(harness.Take<Weights>().empty());
  harness.GiveAll(1, 5.0F);
  CHECK(harness.Sent() == 5.0F);
  CHECK(harness.newest[0].version == Version{1});
  CHECK(harness.newest[0].program_state == "the head");
  harness.FromWorker(harness.MakeArrayPull(1, 1));
  CHECK(harness.Sent() == 5.0F);

  harness.CompleteStep(1, 3.0F);
  harness.CommitStep(1);
  harness.Forget();
  harness.FromWorker(harness.MakeArrayPull(2, 0));
  CHECK(harness.Silent());
  harness.CompleteStep(2, 3.0F);
  harness.Forget();
  harness.CommitStep(2);
  CHECK(harness.Take<Error>().at(0).code == Code::kStale);
}

TEST_CASE("a step whose version is to be in a snapshot is reported once a worker has uploaded it",
          "[server][external]") {
  ExternalHarness harness;
  harness.ToVersion1(true);
  harness.Forget();
  harness.CompleteStep(1, 3.0F);
  CHECK(harness.Take<Prepared>(ShardHarness::kCoordinator).empty());
  CHECK(harness.Take<SnapshotDone>(ShardHarness::kCoordinator).empty());
  harness.GiveAll(1, 5.0F);
  CHECK(harness.Take<Prepared>(ShardHarness::kCoordinator).size() == 1);
  const std::vector<SnapshotDone> done = harness.Take<SnapshotDone>(ShardHarness::kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].failure.empty());
  CHECK(done[0].version == Version{1});
  CHECK(done[0].parameters.program_state == "the head");
  CHECK(done[0].parameters.on_shards);
  CHECK(harness.WeightOf(0) == 5.0F);
}

TEST_CASE("a Pin of a version that is not here is answered when the version is here", "[server][external]") {
  ExternalHarness harness;
  harness.ToVersion1();
  harness.Forget();
  harness.FromCoordinator(harness.MakePin(1));
  CHECK(harness.Take<SnapshotDone>(ShardHarness::kCoordinator).empty());
  harness.GiveAll(1, 5.0F);
  harness.FromCoordinator(harness.MakePin(1));
  CHECK(harness.Take<SnapshotDone>(ShardHarness::kCoordinator).size() == 1);
}

TEST_CASE("the last Commit is answered once the last version is here", "[server][external]") {
  ExternalHarness harness;
  harness.ToVersion1(false, true);
  CHECK(harness.Take<Committed>(ShardHarness::kCoordinator).empty());
  harness.CommitStep(0, false, true);  // repeated
  CHECK(harness.Take<Committed>(ShardHarness::kCoordinator).empty());
  harness.GiveAll(1, 5.0F);
  const std::vector<Committed> committed = harness.Take<Committed>(ShardHarness::kCoordinator);
  REQUIRE(committed.size() == 1);
  CHECK(committed[0].step == Step{0});
}

TEST_CASE("of two copies of an array the first one counts, and both are acknowledged", "[server][external]") {
  ExternalHarness harness;
  harness.ToVersion1();
  harness.Forget();
  harness.GiveAll(1, 5.0F);
  harness.GiveAll(1, 6.0F);
  CHECK(harness.WeightOf(0) == 5.0F);
  std::size_t acknowledged = 0;
  for (const UploadAck& ack : harness.Take<UploadAck>()) acknowledged += ack.blocks.size();
  CHECK(acknowledged >= 4);
}

TEST_CASE("an upload that does not fit is refused", "[server][external]") {
  ExternalHarness harness;
  harness.ToVersion1();
  harness.Forget();
  harness.Give(2, 0, 0, 5.0F);
  CHECK(harness.Refused(Code::kBusy));
  harness.Give(1, 0, 2, 5.0F);
  CHECK(harness.Refused(Code::kInvalid));
  harness.Give(1, 1, 0, 5.0F, "not of block 0");
  CHECK(harness.Refused(Code::kInvalid));
  Slice payload = harness.Values(3, 1.0F);
  harness.FromWorker(
      UploadBlock{harness.generation, Incarnation{7}, harness.session, 0, Hash64(payload.bytes()), Step{1}, 0, ""},
      payload);
  CHECK(harness.Refused(Code::kInvalid));
  payload = harness.Values(4, 1.0F);
  harness.FromWorker(UploadBlock{harness.generation, Incarnation{7}, harness.session, 0, 99, Step{1}, 0, ""}, payload);
  CHECK(harness.Refused(Code::kCorrupt));
  CHECK(harness.WeightOf(0) == 0.0F);
}

TEST_CASE("what was uploaded of a version does not count for the next one", "[server][external]") {
  ExternalHarness harness;
  harness.ToVersion1();
  harness.Give(1, 0, 0, 5.0F, "old");
  harness.Give(1, 0, 1, 5.0F);
  harness.CompleteStep(1, 3.0F);
  harness.CommitStep(1);
  harness.Give(2, 1, 0, 6.0F);
  harness.Give(2, 1, 1, 6.0F);
  CHECK(harness.WeightOf(0) == 0.0F);
  harness.Give(2, 0, 0, 6.0F, "new");
  harness.Give(2, 0, 1, 6.0F);
  CHECK(harness.WeightOf(0) == 6.0F);
}
