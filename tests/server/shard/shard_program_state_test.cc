// A shard and the state that a program carries from step to step.
#include "common/wire/messages/commit.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_bench.h"

namespace capstan::server {
namespace {

using Catch::Matchers::Contains;

void End(ShardBench* bench, std::uint64_t step, SlotIndex slot, std::string state, PeerId from = kWorker) {
  EndSlot end = bench->MakeEnd(step, slot);
  end.program_state = std::move(state);
  bench->FromWorker(end, {}, from);
}

void StageAll(ShardBench* bench, std::uint64_t step) {
  for (BlockIndex block : {0U, 1U}) bench->Stage(step, block, {0, 2}, 2, 1.0F);
}

std::string StateRefusal(ShardBench* bench, PeerId to = kWorker) {
  const std::vector<Error> errors = bench->Take<Error>(to);
  return errors.size() == 1 && errors[0].code == Code::kInvalid ? errors[0].message : "no refusal";
}

ShardBenchOptions TwoBlocks() { return {.slots = 2, .tensors = {4, 4}, .optimizer = OptimizerKind::kMomentum}; }

TEST_CASE("what slots end with is in the report; what was committed is handed out with block 0 alone",
          "[server][program]") {
  ShardBench bench(TwoBlocks());
  bench.Start();
  StageAll(&bench, 0);
  End(&bench, 0, 1, "a");
  End(&bench, 0, 0, "a");
  const PrepareReport report = bench.Take<Prepared>(kCoordinator).at(0).report;
  CHECK(report.program_state == "a");
  CHECK(report.program_slot == 0);
  Commit commit = bench.MakeCommit(0);
  commit.next.program_state = "decided";
  bench.FromCoordinator(commit);
  bench.Forget();
  bench.FromWorker(bench.MakePull(1, {0, 1}));
  const std::vector<Weights> weights = bench.Take<Weights>();
  REQUIRE(weights.size() == 2);
  CHECK(weights[0].program_state == "decided");
  CHECK(weights[1].program_state.empty());
  CHECK(weights[0].updates == 1);
  CHECK(weights[1].updates == 1);
  Pull states = bench.MakePull(1, {0});
  states.array = 1;
  bench.FromWorker(states);
  for (const Weights& state : bench.Take<Weights>()) CHECK(state.program_state.empty());
  StageAll(&bench, 1);
  End(&bench, 1, 0, "");
  End(&bench, 1, 1, "");
  CHECK(bench.Take<Prepared>(kCoordinator).at(0).report.program_state.empty());
}

TEST_CASE("of two states of a step the second is invalid, and names both slots", "[server][program]") {
  ShardBench bench(TwoBlocks());
  bench.Start();
  End(&bench, 0, 1, "one");
  bench.Forget();
  End(&bench, 0, 0, "other", kOther);
  CHECK_THAT(StateRefusal(&bench, kOther),
             Contains("step 0: slot 0 ends with another program state (5 bytes) than slot 1 (3 bytes);"));
  CHECK(bench.Coverage(0).ended == std::vector<SlotIndex>{1});
  End(&bench, 0, 1, "two");  // not even of the same slot
  CHECK_THAT(StateRefusal(&bench), Contains("slot 1 ends with another program state"));
  End(&bench, 0, 0, "");  // a slot may have none
  StageAll(&bench, 0);
  CHECK(bench.Take<Prepared>(kCoordinator).at(0).report.program_state == "one");
}

TEST_CASE("what a slot that has ended brings later does not change the report", "[server][program]") {
  ShardBench bench(TwoBlocks());
  bench.Start();
  StageAll(&bench, 0);
  End(&bench, 0, 0, "");
  End(&bench, 0, 1, "");
  End(&bench, 0, 1, "late");
  CHECK(bench.Take<Error>().empty());
  bench.Forget();
  bench.Tick(std::chrono::seconds(10));
  CHECK(bench.Take<Prepared>(kCoordinator).at(0).report.program_state.empty());
}

TEST_CASE("a state that is too long is invalid, with its size and the limit", "[server][program]") {
  ShardBench bench(TwoBlocks());
  bench.Start();
  End(&bench, 0, 0, std::string(kProgramStateBytesMax, 's'));
  CHECK(bench.Take<Error>().empty());
  End(&bench, 0, 1, std::string(kProgramStateBytesMax + 1, 's'));
  CHECK_THAT(StateRefusal(&bench), Contains("65537 bytes; at most 65536 are kept"));
}

TEST_CASE("the end of a slot of the next step keeps its state for then; a new generation forgets both",
          "[server][program]") {
  ShardBench bench(TwoBlocks());
  bench.Start();
  StageAll(&bench, 0);
  End(&bench, 0, 0, "0");
  End(&bench, 0, 1, "0");
  End(&bench, 1, 0, "1");
  bench.Commits(0);
  bench.Forget();
  End(&bench, 1, 1, "other");
  CHECK_THAT(StateRefusal(&bench),
             Contains("step 1: slot 1 ends with another program state (5 bytes) than slot 0 (1 bytes)"));
  End(&bench, 2, 0, "2");
  bench.FromCoordinator(bench.MakeReset(2));
  bench.generation = Generation{2};
  bench.Forget();
  StageAll(&bench, 0);
  End(&bench, 0, 0, "again");
  End(&bench, 0, 1, "again");
  CHECK(bench.Take<Error>().empty());
  CHECK(bench.Take<Prepared>(kCoordinator).at(0).report.program_state == "again");
}

TEST_CASE("a shard that goes back serves the state of the version that it goes back to", "[server][program]") {
  ShardBench bench(TwoBlocks());
  Reset reset = bench.MakeReset();
  reset.parameters.program_state = "kept";
  reset.parameters.updates = 0;
  bench.FromCoordinator(reset);
  bench.FromWorker(bench.MakePull(0, {0}));
  CHECK(bench.Take<Weights>().at(0).program_state == "kept");
}

}  // namespace
}  // namespace capstan::server
