// A shard from Prepared to Commit, how it begins a generation (Reset, Hello), and its answers to pulls.
#include "common/wire/messages.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/weights.h"
#include "server/shard/admission.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

TEST_CASE("a step is prepared when all blocks and all home slots are there, and not before", "[server][shard]") {
  ShardHarness harness({.slots = 2, .tensors = {4, 2}});
  harness.Start();
  harness.Stage(0, 0, {0, 2}, 2, 6.0F);
  harness.Stage(0, 1, {0, 1}, 1, 1.0F);
  harness.FromWorker(harness.MakeEnd(0, 0));
  harness.FromWorker(harness.MakeEnd(0, 1));
  CHECK(harness.Take<Prepared>(kCoordinator).empty());
  harness.Stage(0, 1, {1, 2}, 1, 5.0F);
  std::vector<Prepared> prepared = harness.Take<Prepared>(kCoordinator);
  REQUIRE(prepared.size() == 1);
  CHECK(prepared[0].step == Step{0});
  CHECK(prepared[0].attempt == 0);
  CHECK(prepared[0].incarnation == Incarnation{7});
  CHECK(prepared[0].report.segment_squares == std::vector<double>{36.0, 18.0});  // 4 * 3^2 and 2 * 3^2
  CHECK(prepared[0].report.block_samples == std::vector<std::uint64_t>{2, 2});
  CHECK(prepared[0].report.slots.size() == 2);
  CHECK(harness.shard->version() == Version{0});
  CHECK(harness.WeightOf(0) == 0.0F);  // prepared, not published

  harness.Tick(std::chrono::milliseconds(300));
  CHECK(harness.Take<Prepared>(kCoordinator).size() == 1);
  harness.Commits(0);
  harness.Tick(std::chrono::seconds(30));
  CHECK(harness.Take<Prepared>(kCoordinator).empty());
  CHECK(harness.WeightOf(0) == -3.0F);
}

TEST_CASE("the end of a slot may be the last thing that arrives", "[server][shard]") {
  ShardHarness harness({.slots = 1, .tensors = {4}});
  harness.Start().Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK(!harness.shard->engine().prepared());
  harness.FromWorker(harness.MakeEnd(0, 0));
  CHECK(harness.shard->engine().prepared());
}

TEST_CASE("a slot's metrics are in the report; one that cannot be is refused and named, and the slot is still open",
          "[server][shard][metrics]") {
  ShardHarness harness({.slots = 1, .tensors = {4}});
  harness.Start().Stage(0, 0, kLeaf0, 1, 1.0F);
  harness.Forget();
  EndSlot end = harness.MakeEnd(0, 0);
  end.report.metrics = {{"accuracy", 3.0, 4.0}, {"top 5", 3.0, 4.0}};
  harness.FromWorker(end);
  const std::vector<Error> errors = harness.Take<Error>();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kInvalid);
  CHECK(errors[0].message.find("slot 0: metric \"top 5\"") == 0);
  CHECK(!harness.shard->engine().prepared());
  end.report.metrics.pop_back();
  harness.FromWorker(end);
  CHECK(harness.Take<Prepared>(kCoordinator).at(0).report.slots.at(0).metrics == end.report.metrics);
}

TEST_CASE("a shard without blocks and home slots prepares every step at once", "[server][shard]") {
  ShardHarness harness({.shard = 4, .shard_count = 5, .slots = 2, .tensors = {4}});
  harness.FromCoordinator(harness.MakeReset());
  CHECK(harness.Take<ResetDone>(kCoordinator).size() == 1);
  CHECK(harness.Take<Prepared>(kCoordinator).size() == 1);
  harness.Commits(0);
  CHECK(harness.Take<Committed>(kCoordinator).size() == 1);
  CHECK(harness.Take<Prepared>(kCoordinator).at(0).step == Step{1});
}

TEST_CASE("a Commit counts once, for the attempt that was prepared, and is answered as often as it comes",
          "[server][shard]") {
  ShardHarness harness;
  harness.Start();
  harness.Commits(0);  // nothing is prepared
  CHECK(harness.Silent());
  harness.CompleteStep(0, 2.0F);
  harness.Forget();
  harness.Commits(0, 1);  // another attempt
  harness.Commits(1);     // another step
  Commit other = harness.MakeCommit(0);
  other.generation = Generation{2};
  harness.FromCoordinator(other);
  CHECK(harness.Silent());
  CHECK(harness.shard->version() == Version{0});
  const Commit commit = harness.MakeCommit(0);
  for (int i = 0; i < 3; ++i) {
    harness.FromCoordinator(commit);
    const std::vector<Committed> committed = harness.Take<Committed>(kCoordinator);
    REQUIRE(committed.size() == 1);
    CHECK(committed[0].step == Step{0});
    CHECK(harness.shard->version() == Version{1});
  }
  CHECK(harness.WeightOf(0) == -2.0F);
  CHECK(harness.metrics->steps_applied.value() == 1);
  harness.FromCoordinator(Ping{Term{1}, Generation{1}});
  const Hello hello = harness.Take<Hello>(kCoordinator).at(0);
  CHECK(hello.last_commit == commit);  // complete, for a new coordinator
}

TEST_CASE("skip publishes the next version as the same blocks", "[server][shard]") {
  ShardHarness harness;
  harness.Start().CompleteStep(0, 2.0F);
  const std::byte* before = harness.shard->store().Weights(0).data;
  harness.Commits(0, 0, StepAction::kSkip);
  CHECK(harness.shard->version() == Version{1});
  CHECK(harness.shard->store().Weights(0).data == before);
  CHECK(harness.WeightOf(0) == 0.0F);
  CHECK(harness.metrics->steps_skipped.value() == 1);
  harness.CompleteStep(1, 3.0F);
  harness.Commits(1);
  CHECK(harness.WeightOf(0) == -3.0F);
}

TEST_CASE("slots without samples count for nothing; a step without any sample is prepared and skipped",
          "[server][shard]") {
  ShardHarness harness;
  harness.Start();
  for (BlockIndex block : {0U, 1U, 2U}) {
    harness.Stage(0, block, {0, 1}, 0, 0.0F);
    harness.Stage(0, block, {1, 2}, 4, 6.0F);
    harness.Stage(0, block, {2, 3}, 0, 0.0F);
  }
  for (SlotIndex slot : {0U, 1U, 2U}) harness.FromWorker(harness.MakeEnd(0, slot));
  harness.Commits(0);
  CHECK(harness.WeightOf(0) == -6.0F);
  harness.Forget();
  harness.CompleteStep(1, 0.0F, 0);
  const Prepared prepared = harness.Take<Prepared>(kCoordinator).at(0);
  CHECK(prepared.report.segment_squares == std::vector<double>{0.0, 0.0, 0.0});
  CHECK(prepared.report.block_samples == std::vector<std::uint64_t>{0, 0, 0});
  harness.FromCoordinator(harness.MakeRedo(1, 1, 0.5F));  // no correct coordinator asks for it
  harness.Commits(1, 1, StepAction::kSkip);
  CHECK(harness.shard->version() == Version{2});
  CHECK(harness.WeightOf(0) == -6.0F);
}

TEST_CASE("Redo prepares again from the kept sum, with the factor, and only that attempt is committed",
          "[server][shard]") {
  ShardHarness harness;
  harness.Start();
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.25F));  // nothing is prepared
  CHECK(harness.Silent());
  harness.CompleteStep(0, 8.0F);
  const Prepared first = harness.Take<Prepared>(kCoordinator).at(0);
  Redo other = harness.MakeRedo(0, 1, 0.25F);
  other.generation = Generation{2};
  harness.Forget();
  harness.FromCoordinator(other);
  harness.FromCoordinator(harness.MakeRedo(1, 1, 0.25F));
  CHECK(harness.Silent());
  for (int i = 0; i < 2; ++i) {  // repeated: answered again, not applied again
    harness.FromCoordinator(harness.MakeRedo(0, 1, 0.25F));
    const std::vector<Prepared> again = harness.Take<Prepared>(kCoordinator);
    REQUIRE(again.size() == 1);
    CHECK(again[0].attempt == 1);
    CHECK(again[0].report == first.report);  // before clipping
  }
  CHECK(harness.metrics->steps_redone.value() == 1);
  harness.Tick(std::chrono::seconds(1));
  CHECK(harness.Take<Prepared>(kCoordinator).at(0).attempt == 1);
  harness.Commits(0, 0);
  CHECK(harness.shard->version() == Version{0});
  harness.Commits(0, 1);
  CHECK(harness.shard->version() == Version{1});
  for (std::size_t index : {0U, 1U, 2U}) CHECK(harness.WeightOf(index) == -2.0F);
  harness.CompleteStep(1, 8.0F);  // the factor applied only to that step
  harness.Commits(1);
  CHECK(harness.WeightOf(0) == -10.0F);
}

TEST_CASE("what one block's samples are says nothing about another block's Redo", "[server][shard]") {
  ShardHarness harness({.slots = 1, .tensors = {4, 4}});  // workers that disagree about the data
  harness.Start().Stage(0, 1, kLeaf0, 0, 0.0F);
  harness.Stage(0, 0, kLeaf0, 2, 8.0F);
  harness.FromWorker(harness.MakeEnd(0, 0));
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.5F));
  harness.Commits(0, 1);
  CHECK(harness.WeightOf(0) == -4.0F);
  CHECK(harness.WeightOf(1) == 0.0F);
}

TEST_CASE("a coordinator of a lower term is ignored, whatever it says", "[server][shard]") {
  ShardHarness harness;
  harness.Start().CompleteStep(0, 1.0F);
  harness.FromCoordinator(Ping{Term{5}, Generation{1}});
  CHECK(harness.Take<Hello>(kCoordinator).at(0).term == Term{5});
  harness.Forget();
  harness.FromCoordinator(Ping{Term{4}, Generation{1}});
  harness.Commits(0);
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.5F));
  harness.FromCoordinator(harness.MakeReset(2));
  harness.FromCoordinator(ClockUpdate{Term{4}, Generation{1}, SequenceNumber{9}, {}});
  harness.FromCoordinator(capstan::Shutdown{Term{4}, Generation{9}});
  CHECK(harness.Silent());
  CHECK(harness.shard->term() == Term{5});
  CHECK(harness.shard->generation() == Generation{1});
  CHECK(harness.shard->version() == Version{0});
  CHECK(harness.shard->engine().attempt() == 0);
  CHECK(!harness.shard->shut_down());
  Commit commit = harness.MakeCommit(0);
  commit.term = Term{5};
  harness.FromCoordinator(commit);
  CHECK(harness.shard->version() == Version{1});
}

TEST_CASE("a coordinator's words from anybody else are refused and change nothing", "[server][shard]") {
  ShardHarness harness;
  harness.Start().CompleteStep(0, 1.0F);
  harness.Forget();
  const Term high{9};
  Commit commit = harness.MakeCommit(0);
  Reset reset = harness.MakeReset(2);
  Redo redo = harness.MakeRedo(0, 1, 0.5F);
  commit.term = reset.term = redo.term = high;
  const Header pretences[] = {commit,
                              reset,
                              redo,
                              Ping{high, Generation{1}},
                              ClockUpdate{high, Generation{1}, SequenceNumber{5}, {}},
                              capstan::Shutdown{high, Generation{1}},
                              Hello{},
                              View{},
                              Join{},
                              Heartbeat{},
                              Leave{},
                              Prepared{},
                              Committed{},
                              Staged{},
                              Weights{}};
  for (const Header& header : pretences) {
    harness.FromWorker(header);
    INFO("kind " << header.any().index());
    CHECK(harness.Refused(Code::kInvalid));
  }
  harness.FromWorker(Error{Code::kRefused, {}, {}, {}, {}, 0, "go away"});
  CHECK(harness.Silent());
  CHECK(harness.shard->term() == Term{1});
  CHECK(harness.shard->version() == Version{0});
  CHECK(harness.shard->engine().attempt() == 0);
  CHECK(!harness.shard->shut_down());
}

TEST_CASE("the coordinator's refusal and a Shutdown end a shard; a Shutdown of an older generation does not",
          "[server][shard]") {
  ShardHarness refused;
  refused.Start().FromCoordinator(Error{Code::kRefused, {}, {}, {}, {}, 0, "another runs"});
  CHECK(refused.shard->shut_down());
  CHECK(refused.notices().at(0).text == "the coordinator refuses this shard: another runs");
  CHECK(refused.shard->refusal().code() == Code::kRefused);
  CHECK(refused.shard->refusal().message() == refused.notices().at(0).text);
  ShardHarness harness;
  harness.FromCoordinator(harness.MakeReset(3));
  harness.FromCoordinator(capstan::Shutdown{Term{1}, Generation{2}});
  CHECK(!harness.shard->shut_down());
  harness.FromCoordinator(capstan::Shutdown{Term{1}, Generation{3}});
  CHECK(harness.shard->shut_down());
}

// ---- Reset ----------------------------------------------------------------------------------------------------------

TEST_CASE("the same Reset again is answered and loses nothing", "[server][shard]") {
  ShardHarness harness;
  harness.Start().CompleteStep(0, 1.0F);
  harness.Commits(0);
  harness.Stage(1, 0, kLeaf0, 1, 1.0F);
  harness.Forget();
  harness.FromCoordinator(harness.MakeReset());
  CHECK(harness.Take<ResetDone>(kCoordinator).size() == 1);
  CHECK(harness.shard->version() == Version{1});
  CHECK(harness.WeightOf(0) == -1.0F);
  CHECK(harness.Coverage(1).nodes.size() == 1);
}

TEST_CASE("a Reset for another life, or of an older generation, is not for us", "[server][shard]") {
  ShardHarness harness;
  Reset reset = harness.MakeReset(2);
  reset.incarnation = Incarnation{6};
  harness.FromCoordinator(reset);
  CHECK(!harness.shard->serving());
  reset.incarnation = Incarnation{8};
  harness.FromCoordinator(reset);
  CHECK(!harness.shard->serving());
  harness.FromCoordinator(harness.MakeReset(2));
  CHECK(harness.shard->serving());
  harness.Forget();
  harness.FromCoordinator(harness.MakeReset(1));
  CHECK(harness.Silent());
  CHECK(harness.shard->generation() == Generation{2});
}

TEST_CASE("a new generation starts from version 0 with nothing of the old one", "[server][shard]") {
  ShardHarness harness;
  harness.Start();
  const std::uint64_t fresh = harness.shard->store().Digest();
  harness.CompleteStep(0, 1.0F);
  harness.Commits(0);
  harness.Stage(1, 0, kLeaf0, 1, 1.0F);
  harness.FromWorker(harness.MakeEnd(1, 0));
  harness.FromWorker(harness.MakePull(2, {0}));  // waits
  CHECK(harness.metrics->waiting_pulls.value() == 1);
  harness.Forget();
  harness.FromCoordinator(harness.MakeReset(2));
  CHECK(harness.metrics->waiting_pulls.value() == 0);
  const ResetDone done = harness.Take<ResetDone>(kCoordinator).at(0);
  CHECK(done.generation == Generation{2});
  CHECK(harness.shard->store().Digest() == fresh);
  CHECK(harness.shard->version() == Version{0});
  CHECK(harness.shard->last_commit() == nullptr);
  CHECK(harness.shard->engine().staged_bytes() == 0);
  harness.FromCoordinator(Ping{Term{1}, Generation{2}});
  const Hello hello = harness.Take<Hello>(kCoordinator).at(0);
  CHECK(!hello.prepared);
  CHECK(hello.serving);
  CHECK(hello.generation == Generation{2});
}

TEST_CASE("a Reset that cannot be served is answered so, and what was served goes on", "[server][shard]") {
  ShardHarness harness;
  harness.Start();
  std::vector<Reset> bad(5, harness.MakeReset(2));
  bad[0].snapshot = {Generation{1}, Version{3}};  // without a shard that has it
  bad[1].slot_count = 0;
  bad[2].catalog.clear();
  bad[3].catalog[0].shape = {-4};
  bad[4].slot_count = kSlotsMax + 1;
  for (const Reset& reset : bad) {
    harness.FromCoordinator(reset);
    const std::vector<ResetBad> answers = harness.Take<ResetBad>(kCoordinator);
    REQUIRE(answers.size() == 1);
    CHECK(!answers[0].reason.empty());
    CHECK(harness.shard->generation() == Generation{1});
  }
  harness.CompleteStep(0, 1.0F);
  harness.Commits(0);
  CHECK(harness.WeightOf(0) == -1.0F);
}

// ---- Hello ----------------------------------------------------------------------------------------------------------

TEST_CASE("a shard says Hello until a coordinator is heard, and again when it falls silent", "[server][shard]") {
  ShardHarness harness;
  harness.Tick();
  std::vector<Hello> hellos = harness.Take<Hello>(kCoordinator);
  REQUIRE(hellos.size() == 1);
  CHECK(!hellos[0].serving);
  CHECK(hellos[0].endpoint == "here");
  CHECK(hellos[0].metrics == "here:9100");
  CHECK(hellos[0].config_hash == 11);
  harness.Tick(std::chrono::milliseconds(50));
  CHECK(harness.Take<Hello>(kCoordinator).empty());  // backing off
  harness.Tick(std::chrono::milliseconds(200));
  CHECK(harness.Take<Hello>(kCoordinator).size() == 1);
  harness.FromCoordinator(Ping{Term{1}, Generation{0}});
  CHECK(harness.Take<Hello>(kCoordinator).size() == 1);
  harness.Tick(std::chrono::milliseconds(1900));
  CHECK(harness.Take<Hello>(kCoordinator).empty());
  harness.Tick(std::chrono::milliseconds(3000));
  CHECK(harness.Take<Hello>(kCoordinator).size() == 1);
}

TEST_CASE("Hello tells a new coordinator what is prepared, at which attempt", "[server][shard]") {
  ShardHarness harness;
  harness.Start().CompleteStep(0, 1.0F);
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.5F));
  harness.FromCoordinator(Ping{Term{2}, Generation{1}});
  const Hello hello = harness.Take<Hello>(kCoordinator).at(0);
  CHECK(hello.term == Term{2});
  REQUIRE(hello.prepared);
  CHECK(hello.prepared->step == Step{0});
  CHECK(hello.prepared->attempt == 1);
  CHECK(hello.prepared->report.segment_squares.size() == 3);
}

// ---- pulls ----------------------------------------------------------------------------------------------------------

TEST_CASE("a pull is answered with the published weights, whole and hashed", "[server][shard]") {
  ShardHarness harness;
  harness.Start().CompleteStep(0, 1.0F);
  harness.Commits(0);
  harness.Forget();
  harness.FromWorker(harness.MakePull(1, {2, 0}));
  const std::vector<Weights> weights = harness.Take<Weights>();
  REQUIRE(weights.size() == 2);
  CHECK(weights[0].block == 2);
  CHECK(weights[1].block == 0);
  for (std::size_t i : {0U, 1U}) {
    CHECK(weights[i].version == Version{1});
    CHECK(weights[i].generation == Generation{1});
    CHECK(!weights[i].speculative);
    CHECK(!weights[i].stop);
    CHECK(harness.payloads[i].size == harness.SizeOf(weights[i].block) * sizeof(float));
    CHECK(Hash64(harness.payloads[i].bytes()) == weights[i].payload_hash);
  }
}

TEST_CASE("a pull waits until its version is published", "[server][shard]") {
  ShardHarness harness;
  harness.Start().FromWorker(harness.MakePull(1, {0}));
  harness.FromWorker(harness.MakePull(1, {1}), {}, ShardHarness::kOther);
  harness.CompleteStep(0, 1.0F);
  CHECK(harness.Take<Weights>().empty());
  harness.Commits(0);
  CHECK(harness.Take<Weights>().at(0).block == 0);
  CHECK(harness.Take<Weights>(ShardHarness::kOther).at(0).block == 1);
  harness.CompleteStep(1, 1.0F);
  harness.Commits(1);
  CHECK(harness.Take<Weights>().empty());  // once
}

TEST_CASE("a pull of a version that is gone is stale and names the present step; one too far ahead comes too early",
          "[server][shard]") {
  ShardHarness harness;
  harness.Start();
  for (std::uint64_t step : {0U, 1U}) {
    harness.CompleteStep(step, 1.0F);
    harness.Commits(step);
  }
  harness.Forget();
  harness.FromWorker(harness.MakePull(1, {0}));
  const std::vector<Error> errors = harness.Take<Error>();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kStale);
  CHECK(errors[0].step == Step{2});
  harness.FromWorker(harness.MakePull(2 + kFutureVersionsMax + 1, {0}));
  CHECK(harness.Refused(Code::kBusy));
  harness.FromWorker(harness.MakePull(UINT64_MAX, {0}));
  CHECK(harness.Refused(Code::kBusy));
}

TEST_CASE("a pull of blocks that are not here, or of too many, is invalid", "[server][shard]") {
  ShardHarness harness;
  harness.Start().FromWorker(harness.MakePull(0, {0, 3}));
  CHECK(harness.Refused(Code::kInvalid));
  harness.FromWorker(harness.MakePull(0, {UINT32_MAX}));
  CHECK(harness.Refused(Code::kInvalid));
  harness.FromWorker(harness.MakePull(0, std::vector<BlockIndex>(PullQueue::kBlocksMax + 1, 0)));
  CHECK(harness.Refused(Code::kInvalid));
  harness.FromWorker(harness.MakePull(0, {}));
  CHECK(harness.Silent());
}

TEST_CASE("a pull that names a block twice is invalid", "[server][shard]") {
  ShardHarness harness;
  harness.Start().FromWorker(harness.MakePull(0, {0, 1, 0}));
  CHECK(harness.Refused(Code::kInvalid));
  Pull pull = harness.MakePull(0, {0});
  pull.speculative = {1, 2, 1};
  harness.FromWorker(pull);
  CHECK(harness.Refused(Code::kInvalid));
}

std::vector<BlockIndex> BlocksOf(const std::vector<Weights>& weights) {
  std::vector<BlockIndex> blocks;
  for (const Weights& one : weights) blocks.push_back(one.block);
  return blocks;
}

TEST_CASE("a peer without room gets the rest of its pull when it has room, and delays nobody", "[server][shard]") {
  ShardHarness harness({.slots = 1, .tensors = {4, 4, 4, 4}});
  harness.room[ShardHarness::kWorker] = 0;
  harness.Start().FromWorker(harness.MakePull(0, {3, 1, 0}));
  CHECK(harness.Silent());
  CHECK(harness.metrics->waiting_pulls.value() == 1);
  harness.FromWorker(harness.MakePull(0, {0, 2}), {}, ShardHarness::kOther);
  CHECK(BlocksOf(harness.Take<Weights>(ShardHarness::kOther)) == std::vector<BlockIndex>{0, 2});
  harness.FromWorker(harness.MakePull(0, {1, 2}));  // of the same version: block 1 is not sent twice
  CHECK(harness.Silent());
  harness.room[ShardHarness::kWorker] = 17;  // for a block of 16 bytes, and one more
  harness.LetDiskGo();
  CHECK(BlocksOf(harness.Take<Weights>()) == std::vector<BlockIndex>{3, 1});
  harness.LetDiskGo();
  CHECK(BlocksOf(harness.Take<Weights>()) == std::vector<BlockIndex>{0, 2});
  CHECK(harness.metrics->waiting_pulls.value() == 0);
}

TEST_CASE("what a peer had no room for is stale once its version is gone, and forgotten for another pull",
          "[server][shard]") {
  ShardHarness harness({.slots = 1, .tensors = {4, 4}});
  harness.room[ShardHarness::kWorker] = harness.room[ShardHarness::kOther] = 0;
  harness.Start().FromWorker(harness.MakePull(0, {0}));
  harness.FromWorker(harness.MakePull(0, {1}), {}, ShardHarness::kOther);
  harness.CompleteStep(0, 1.0F);
  harness.Commits(0);
  const std::vector<Error> errors = harness.Take<Error>();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kStale);
  CHECK(errors[0].step == Step{1});
  harness.Forget();
  harness.FromWorker(harness.MakePull(1, {0}));
  harness.FromWorker(CoverageQuery{harness.generation, Incarnation{7}, SessionId{1}, Step{1}, 9, {}});
  CHECK(harness.Take<Staged>().at(0).pull_waits);
  harness.FromWorker(CoverageQuery{harness.generation, Incarnation{7}, SessionId{1}, Step{1}});
  harness.Forget();
  harness.room.clear();
  harness.LetDiskGo();
  CHECK(harness.Take<Weights>().empty());
  CHECK(harness.metrics->waiting_pulls.value() == 0);
}

TEST_CASE("a pull waits until it is read, also in async, and then gets the newest weights", "[server][shard][async]") {
  ShardHarness harness({.mode = Mode::kAsync, .slots = 1, .tensors = {4}});
  harness.room[ShardHarness::kOther] = 0;
  harness.Start().FromWorker(harness.MakePull(0, {0}), {}, ShardHarness::kOther);
  harness.Stage(1, 0, {0, 1}, 1, 4.0F);
  CHECK(harness.Take<Weights>(ShardHarness::kOther).empty());
  harness.room.clear();
  harness.LetDiskGo();
  REQUIRE(harness.Take<Weights>(ShardHarness::kOther).size() == 1);
  CHECK(*reinterpret_cast<const float*>(harness.payloads.back().data) == -4.0F);
}

TEST_CASE("one pull per peer waits, and not more than the limit", "[server][shard]") {
  ShardHarness harness;
  harness.Start();
  for (std::uint64_t peer = 0; peer < PullQueue::kWaitingMax; ++peer) {
    harness.FromWorker(harness.MakePull(1, {0}), {}, PeerId{1000 + peer});
  }
  CHECK(harness.Silent());
  harness.FromWorker(harness.MakePull(1, {0}));
  CHECK(harness.Refused(Code::kBusy));
  harness.FromWorker(harness.MakePull(1, {1}), {}, PeerId{1000});  // replaces the peer's own pull
  CHECK(harness.Silent());
  CHECK(harness.metrics->waiting_pulls.value() == static_cast<double>(PullQueue::kWaitingMax));
  harness.CompleteStep(0, 1.0F);
  harness.Commits(0);
  CHECK(harness.Take<Weights>(PeerId{1000}).at(0).block == 1);
  CHECK(harness.Take<Weights>(PeerId{1001}).at(0).block == 0);
  CHECK(harness.metrics->waiting_pulls.value() == 0.0);
}

TEST_CASE("weights that were handed out stay as they were while later steps are published", "[server][shard]") {
  ShardHarness harness;
  harness.Start().CompleteStep(0, 1.0F);
  harness.Commits(0);
  harness.FromWorker(harness.MakePull(1, {0}));
  const Weights weights = harness.Take<Weights>().at(0);
  const Slice bytes = harness.payloads.back();
  for (std::uint64_t step = 1; step < 5; ++step) {
    harness.CompleteStep(step, 1.0F);
    harness.Commits(step);
  }
  CHECK(harness.WeightOf(0) == -5.0F);
  CHECK(Hash64(bytes.bytes()) == weights.payload_hash);
}

TEST_CASE("after the last version the weights say so, and no step is prepared", "[server][shard]") {
  ShardHarness harness({.shard = 4, .shard_count = 5, .slots = 2, .tensors = {4, 4, 4, 4, 4}});
  harness.Start();
  for (SlotIndex slot : {0U, 1U}) harness.Stage(0, 4, {slot, slot + 1}, 1, 1.0F);
  Commit last = harness.MakeCommit(0);
  last.next.stop = true;
  harness.FromCoordinator(last);
  harness.FromWorker(harness.MakePull(1, {4}));
  CHECK(harness.Take<Weights>().at(0).stop);
  for (SlotIndex slot : {0U, 1U}) harness.Stage(1, 4, {slot, slot + 1}, 1, 1.0F);
  CHECK(!harness.shard->engine().prepared());
}

}  // namespace
}  // namespace capstan::server
