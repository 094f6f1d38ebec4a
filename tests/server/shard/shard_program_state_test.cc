// A shard and the state that a program carries from step to step.
#include "common/wire/messages/commit.h"
#include "common/wire/messages/disagreement.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

using Catch::Matchers::Contains;

void End(ShardHarness* harness, std::uint64_t step, SlotIndex slot, std::string state, PeerId from = kWorker) {
  EndSlot end = harness->MakeEnd(step, slot);
  end.program_state = std::move(state);
  harness->FromWorker(end, {}, from);
}

void StageAll(ShardHarness* harness, std::uint64_t step) {
  for (BlockIndex block : {0U, 1U}) harness->Stage(step, block, {0, 2}, 2, 1.0F);
}

std::string StateRefusal(ShardHarness* harness, Code code) {
  const std::vector<Error> errors = harness->Take<Error>();
  return errors.size() == 1 && errors[0].code == code ? errors[0].message : "no refusal";
}

ShardHarnessOptions TwoBlocks() { return {.slots = 2, .tensors = {4, 4}, .optimizer = OptimizerKind::kMomentum}; }

TEST_CASE("what slots end with is in the report; what was committed is handed out with block 0 alone",
          "[server][program]") {
  ShardHarness harness(TwoBlocks());
  harness.Start();
  StageAll(&harness, 0);
  End(&harness, 0, 1, "a");
  End(&harness, 0, 0, "a");
  const PrepareReport report = harness.Take<Prepared>(kCoordinator).at(0).report;
  CHECK(report.program_state == "a");
  CHECK(report.program_slot == 0);
  Commit commit = harness.MakeCommit(0);
  commit.next.program_state = "decided";
  harness.FromCoordinator(commit);
  harness.Forget();
  harness.FromWorker(harness.MakePull(1, {0, 1}));
  const std::vector<Weights> weights = harness.Take<Weights>();
  REQUIRE(weights.size() == 2);
  CHECK(weights[0].program_state == "decided");
  CHECK(weights[1].program_state.empty());
  CHECK(weights[0].updates == 1);
  CHECK(weights[1].updates == 1);
  Pull states = harness.MakePull(1, {0});
  states.array = 1;
  harness.FromWorker(states);
  for (const Weights& state : harness.Take<Weights>()) CHECK(state.program_state.empty());
  StageAll(&harness, 1);
  End(&harness, 1, 0, "");
  End(&harness, 1, 1, "");
  CHECK(harness.Take<Prepared>(kCoordinator).at(0).report.program_state.empty());
}

TEST_CASE("of two states of a step the second is not taken, and the coordinator learns who brought both",
          "[server][program]") {
  ShardHarness harness(TwoBlocks());
  harness.Start().Tell({harness.MakeSession(1, "a"), harness.MakeSession(2, "b")});
  End(&harness, 0, 1, "one");
  harness.Forget();
  harness.session = SessionId{2};
  End(&harness, 0, 0, "other");
  const std::string text = StateRefusal(&harness, Code::kBusy);
  CHECK_THAT(text, Contains("step 0: slot 0 ends with another program state (5 bytes) than slot 1 (3 bytes);"));
  std::vector<Disagreement> disagreements = harness.Take<Disagreement>(kCoordinator);
  REQUIRE(disagreements.size() == 1);
  CHECK(disagreements[0].first == SessionId{1});
  CHECK(disagreements[0].second == SessionId{2});
  CHECK(disagreements[0].what == text);
  CHECK(harness.Coverage(0).ended == std::vector<SlotIndex>{1});
  harness.session = SessionId{1};
  End(&harness, 0, 1, "two");  // not even of the same slot
  CHECK(harness.Take<Staged>().size() == 1);
  disagreements = harness.Take<Disagreement>(kCoordinator);
  REQUIRE(disagreements.size() == 1);
  CHECK(disagreements[0].first == disagreements[0].second);
  End(&harness, 0, 0, "");  // a slot may have none
  StageAll(&harness, 0);
  CHECK(harness.Take<Prepared>(kCoordinator).at(0).report.program_state == "one");
}

TEST_CASE("what a slot that has ended brings later does not change the report", "[server][program]") {
  ShardHarness harness(TwoBlocks());
  harness.Start();
  StageAll(&harness, 0);
  End(&harness, 0, 0, "");
  End(&harness, 0, 1, "");
  End(&harness, 0, 1, "late");
  CHECK(harness.Take<Error>().empty());
  harness.Forget();
  harness.Tick(std::chrono::seconds(10));
  CHECK(harness.Take<Prepared>(kCoordinator).at(0).report.program_state.empty());
}

TEST_CASE("a state that is too long is invalid, with its size and the limit", "[server][program]") {
  ShardHarness harness(TwoBlocks());
  harness.Start();
  End(&harness, 0, 0, std::string(kProgramStateBytesMax, 's'));
  CHECK(harness.Take<Error>().empty());
  End(&harness, 0, 1, std::string(kProgramStateBytesMax + 1, 's'));
  CHECK_THAT(StateRefusal(&harness, Code::kInvalid), Contains("65537 bytes; at most 65536 are kept"));
}

TEST_CASE("the end of a slot of the next step keeps its state for then; a new generation forgets both",
          "[server][program]") {
  ShardHarness harness(TwoBlocks());
  harness.Start();
  StageAll(&harness, 0);
  End(&harness, 0, 0, "0");
  End(&harness, 0, 1, "0");
  End(&harness, 1, 0, "1");
  harness.Commits(0);
  harness.Forget();
  End(&harness, 1, 1, "other");
  CHECK_THAT(StateRefusal(&harness, Code::kBusy),
             Contains("step 1: slot 1 ends with another program state (5 bytes) than slot 0 (1 bytes)"));
  End(&harness, 2, 0, "2");
  harness.FromCoordinator(harness.MakeReset(2));
  harness.generation = Generation{2};
  harness.Forget();
  StageAll(&harness, 0);
  End(&harness, 0, 0, "again");
  End(&harness, 0, 1, "again");
  CHECK(harness.Take<Error>().empty());
  CHECK(harness.Take<Prepared>(kCoordinator).at(0).report.program_state == "again");
}

TEST_CASE("a shard that goes back serves the state of the version that it goes back to", "[server][program]") {
  ShardHarness harness(TwoBlocks());
  Reset reset = harness.MakeReset();
  reset.parameters.program_state = "kept";
  reset.parameters.updates = 0;
  harness.FromCoordinator(reset);
  harness.FromWorker(harness.MakePull(0, {0}));
  CHECK(harness.Take<Weights>().at(0).program_state == "kept");
}

}  // namespace
}  // namespace capstan::server
