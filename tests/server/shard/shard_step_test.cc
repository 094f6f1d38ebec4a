// A shard from Prepared to Commit, its answers to pulls, and its restarts.
#include "common/wire/messages.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/weights.h"
#include "server/shard/admission.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_bench.h"

namespace capstan::server {
namespace {

TEST_CASE("a step is prepared when all blocks and all home slots are there, and not before", "[server][shard]") {
  ShardBench bench({.slots = 2, .tensors = {4, 2}});
  bench.Start();
  bench.Stage(0, 0, {0, 2}, 2, 6.0F);
  bench.Stage(0, 1, {0, 1}, 1, 1.0F);
  bench.FromWorker(bench.MakeEnd(0, 0));
  bench.FromWorker(bench.MakeEnd(0, 1));
  CHECK(bench.Take<Prepared>(kCoordinator).empty());
  bench.Stage(0, 1, {1, 2}, 1, 5.0F);
  std::vector<Prepared> prepared = bench.Take<Prepared>(kCoordinator);
  REQUIRE(prepared.size() == 1);
  CHECK(prepared[0].step == Step{0});
  CHECK(prepared[0].attempt == 0);
  CHECK(prepared[0].incarnation == Incarnation{7});
  CHECK(prepared[0].report.segment_squares == std::vector<double>{36.0, 18.0});  // 4 * 3^2 and 2 * 3^2
  CHECK(prepared[0].report.block_samples == std::vector<std::uint64_t>{2, 2});
  CHECK(prepared[0].report.slots.size() == 2);
  CHECK(bench.shard->version() == Version{0});
  CHECK(bench.WeightOf(0) == 0.0F);  // prepared, not published

  bench.Tick(std::chrono::milliseconds(300));
  CHECK(bench.Take<Prepared>(kCoordinator).size() == 1);
  bench.Commits(0);
  bench.Tick(std::chrono::seconds(30));
  CHECK(bench.Take<Prepared>(kCoordinator).empty());
  CHECK(bench.WeightOf(0) == -3.0F);
}

TEST_CASE("the end of a slot may be the last thing that arrives", "[server][shard]") {
  ShardBench bench({.slots = 1, .tensors = {4}});
  bench.Start().Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK(!bench.shard->engine().prepared());
  bench.FromWorker(bench.MakeEnd(0, 0));
  CHECK(bench.shard->engine().prepared());
}

TEST_CASE("a slot's metrics are in the report; one that cannot be is refused and named, and the slot is still open",
          "[server][shard][metrics]") {
  ShardBench bench({.slots = 1, .tensors = {4}});
  bench.Start().Stage(0, 0, kLeaf0, 1, 1.0F);
  bench.Forget();
  EndSlot end = bench.MakeEnd(0, 0);
  end.report.metrics = {{"accuracy", 3.0, 4.0}, {"top 5", 3.0, 4.0}};
  bench.FromWorker(end);
  const std::vector<Error> errors = bench.Take<Error>();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kInvalid);
  CHECK(errors[0].message.find("slot 0: metric \"top 5\"") == 0);
  CHECK(!bench.shard->engine().prepared());
  end.report.metrics.pop_back();
  bench.FromWorker(end);
  CHECK(bench.Take<Prepared>(kCoordinator).at(0).report.slots.at(0).metrics == end.report.metrics);
}

TEST_CASE("a shard without blocks and home slots prepares every step at once", "[server][shard]") {
  ShardBench bench({.shard = 4, .shard_count = 5, .slots = 2, .tensors = {4}});
  bench.FromCoordinator(bench.MakeReset());
  CHECK(bench.Take<ResetDone>(kCoordinator).size() == 1);
  CHECK(bench.Take<Prepared>(kCoordinator).size() == 1);
  bench.Commits(0);
  CHECK(bench.Take<Committed>(kCoordinator).size() == 1);
  CHECK(bench.Take<Prepared>(kCoordinator).at(0).step == Step{1});
}

TEST_CASE("a Commit counts once, for the attempt that was prepared, and is answered as often as it comes",
          "[server][shard]") {
  ShardBench bench;
  bench.Start();
  bench.Commits(0);  // nothing is prepared
  CHECK(bench.Silent());
  bench.CompleteStep(0, 2.0F);
  bench.Forget();
  bench.Commits(0, 1);  // another attempt
  bench.Commits(1);     // another step
  Commit other = bench.MakeCommit(0);
  other.generation = Generation{2};
  bench.FromCoordinator(other);
  CHECK(bench.Silent());
  CHECK(bench.shard->version() == Version{0});
  const Commit commit = bench.MakeCommit(0);
  for (int i = 0; i < 3; ++i) {
    bench.FromCoordinator(commit);
    const std::vector<Committed> committed = bench.Take<Committed>(kCoordinator);
    REQUIRE(committed.size() == 1);
    CHECK(committed[0].step == Step{0});
    CHECK(bench.shard->version() == Version{1});
  }
  CHECK(bench.WeightOf(0) == -2.0F);
  CHECK(bench.metrics->steps_applied.value() == 1);
  bench.FromCoordinator(Ping{Term{1}, Generation{1}});
  const Hello hello = bench.Take<Hello>(kCoordinator).at(0);
  CHECK(hello.last_commit == commit);  // complete, for a new coordinator
}

TEST_CASE("skip publishes the next version as the same blocks", "[server][shard]") {
  ShardBench bench;
  bench.Start().CompleteStep(0, 2.0F);
  const std::byte* before = bench.shard->store().Weights(0).data;
  bench.Commits(0, 0, StepAction::kSkip);
  CHECK(bench.shard->version() == Version{1});
  CHECK(bench.shard->store().Weights(0).data == before);
  CHECK(bench.WeightOf(0) == 0.0F);
  CHECK(bench.metrics->steps_skipped.value() == 1);
  bench.CompleteStep(1, 3.0F);
  bench.Commits(1);
  CHECK(bench.WeightOf(0) == -3.0F);
}

TEST_CASE("slots without samples count for nothing; a step without any sample is prepared and skipped",
          "[server][shard]") {
  ShardBench bench;
  bench.Start();
  for (BlockIndex block : {0U, 1U, 2U}) {
    bench.Stage(0, block, {0, 1}, 0, 0.0F);
    bench.Stage(0, block, {1, 2}, 4, 6.0F);
    bench.Stage(0, block, {2, 3}, 0, 0.0F);
  }
  for (SlotIndex slot : {0U, 1U, 2U}) bench.FromWorker(bench.MakeEnd(0, slot));
  bench.Commits(0);
  CHECK(bench.WeightOf(0) == -6.0F);
  bench.Forget();
  bench.CompleteStep(1, 0.0F, 0);
  const Prepared prepared = bench.Take<Prepared>(kCoordinator).at(0);
  CHECK(prepared.report.segment_squares == std::vector<double>{0.0, 0.0, 0.0});
  CHECK(prepared.report.block_samples == std::vector<std::uint64_t>{0, 0, 0});
  bench.FromCoordinator(bench.MakeRedo(1, 1, 0.5F));  // no correct coordinator asks for it
  bench.Commits(1, 1, StepAction::kSkip);
  CHECK(bench.shard->version() == Version{2});
  CHECK(bench.WeightOf(0) == -6.0F);
}

TEST_CASE("Redo prepares again from the kept sum, with the factor, and only that attempt is committed",
          "[server][shard]") {
  ShardBench bench;
  bench.Start();
  bench.FromCoordinator(bench.MakeRedo(0, 1, 0.25F));  // nothing is prepared
  CHECK(bench.Silent());
  bench.CompleteStep(0, 8.0F);
  const Prepared first = bench.Take<Prepared>(kCoordinator).at(0);
  Redo other = bench.MakeRedo(0, 1, 0.25F);
  other.generation = Generation{2};
  bench.Forget();
  bench.FromCoordinator(other);
  bench.FromCoordinator(bench.MakeRedo(1, 1, 0.25F));
  CHECK(bench.Silent());
  for (int i = 0; i < 2; ++i) {  // repeated: answered again, not applied again
    bench.FromCoordinator(bench.MakeRedo(0, 1, 0.25F));
    const std::vector<Prepared> again = bench.Take<Prepared>(kCoordinator);
    REQUIRE(again.size() == 1);
    CHECK(again[0].attempt == 1);
    CHECK(again[0].report == first.report);  // before clipping
  }
  CHECK(bench.metrics->steps_redone.value() == 1);
  bench.Tick(std::chrono::seconds(1));
  CHECK(bench.Take<Prepared>(kCoordinator).at(0).attempt == 1);
  bench.Commits(0, 0);
  CHECK(bench.shard->version() == Version{0});
  bench.Commits(0, 1);
  CHECK(bench.shard->version() == Version{1});
  for (std::size_t local : {0U, 1U, 2U}) CHECK(bench.WeightOf(local) == -2.0F);
  bench.CompleteStep(1, 8.0F);  // the factor applied only to that step
  bench.Commits(1);
  CHECK(bench.WeightOf(0) == -10.0F);
}

TEST_CASE("what one block's samples are says nothing about another block's Redo", "[server][shard]") {
  ShardBench bench({.slots = 1, .tensors = {4, 4}});  // workers that disagree about the data
  bench.Start().Stage(0, 1, kLeaf0, 0, 0.0F);
  bench.Stage(0, 0, kLeaf0, 2, 8.0F);
  bench.FromWorker(bench.MakeEnd(0, 0));
  bench.FromCoordinator(bench.MakeRedo(0, 1, 0.5F));
  bench.Commits(0, 1);
  CHECK(bench.WeightOf(0) == -4.0F);
  CHECK(bench.WeightOf(1) == 0.0F);
}

TEST_CASE("a coordinator of a lower term is ignored, whatever it says", "[server][shard]") {
  ShardBench bench;
  bench.Start().CompleteStep(0, 1.0F);
  bench.FromCoordinator(Ping{Term{5}, Generation{1}});
  CHECK(bench.Take<Hello>(kCoordinator).at(0).term == Term{5});
  bench.Forget();
  bench.FromCoordinator(Ping{Term{4}, Generation{1}});
  bench.Commits(0);
  bench.FromCoordinator(bench.MakeRedo(0, 1, 0.5F));
  bench.FromCoordinator(bench.MakeReset(2));
  bench.FromCoordinator(Rates{Term{4}, Generation{1}, Step{9}, {}});
  bench.FromCoordinator(capstan::Shutdown{Term{4}, Generation{9}});
  CHECK(bench.Silent());
  CHECK(bench.shard->term() == Term{5});
  CHECK(bench.shard->generation() == Generation{1});
  CHECK(bench.shard->version() == Version{0});
  CHECK(bench.shard->engine().attempt() == 0);
  CHECK(!bench.shard->shut_down());
  Commit commit = bench.MakeCommit(0);
  commit.term = Term{5};
  bench.FromCoordinator(commit);
  CHECK(bench.shard->version() == Version{1});
}

TEST_CASE("a coordinator's words from anybody else are refused and change nothing", "[server][shard]") {
  ShardBench bench;
  bench.Start().CompleteStep(0, 1.0F);
  bench.Forget();
  const Term high{9};
  Commit commit = bench.MakeCommit(0);
  Reset reset = bench.MakeReset(2);
  Redo redo = bench.MakeRedo(0, 1, 0.5F);
  commit.term = reset.term = redo.term = high;
  const Header pretences[] = {commit,
                              reset,
                              redo,
                              Ping{high, Generation{1}},
                              Rates{high, Generation{1}, Step{5}, {}},
                              capstan::Shutdown{high, Generation{1}},
                              Hello{},
                              View{},
                              Join{},
                              Beat{},
                              Leave{},
                              Prepared{},
                              Committed{},
                              Staged{},
                              Weights{}};
  for (const Header& header : pretences) {
    bench.FromWorker(header);
    INFO("kind " << header.any().index());
    CHECK(bench.Refused(Code::kInvalid));
  }
  bench.FromWorker(Error{Code::kRefused, {}, {}, {}, {}, 0, "go away"});
  CHECK(bench.Silent());
  CHECK(bench.shard->term() == Term{1});
  CHECK(bench.shard->version() == Version{0});
  CHECK(bench.shard->engine().attempt() == 0);
  CHECK(!bench.shard->shut_down());
}

TEST_CASE("the coordinator's refusal and a Shutdown end a shard; a Shutdown of an older generation does not",
          "[server][shard]") {
  ShardBench refused;
  refused.Start().FromCoordinator(Error{Code::kRefused, {}, {}, {}, {}, 0, "another runs"});
  CHECK(refused.shard->shut_down());
  CHECK(refused.notices().at(0).text == "the coordinator refuses this shard: another runs");
  CHECK(refused.shard->refusal().code() == Code::kRefused);
  CHECK(refused.shard->refusal().message() == refused.notices().at(0).text);
  ShardBench bench;
  bench.FromCoordinator(bench.MakeReset(3));
  bench.FromCoordinator(capstan::Shutdown{Term{1}, Generation{2}});
  CHECK(!bench.shard->shut_down());
  bench.FromCoordinator(capstan::Shutdown{Term{1}, Generation{3}});
  CHECK(bench.shard->shut_down());
}

// ---- Reset ----------------------------------------------------------------------------------------------------------

TEST_CASE("the same Reset again is answered and loses nothing", "[server][shard]") {
  ShardBench bench;
  bench.Start().CompleteStep(0, 1.0F);
  bench.Commits(0);
  bench.Stage(1, 0, kLeaf0, 1, 1.0F);
  bench.Forget();
  bench.FromCoordinator(bench.MakeReset());
  CHECK(bench.Take<ResetDone>(kCoordinator).size() == 1);
  CHECK(bench.shard->version() == Version{1});
  CHECK(bench.WeightOf(0) == -1.0F);
  CHECK(bench.Coverage(1).held.size() == 1);
}

TEST_CASE("a Reset for another life, or of an older generation, is not for us", "[server][shard]") {
  ShardBench bench;
  Reset reset = bench.MakeReset(2);
  reset.incarnation = Incarnation{6};
  bench.FromCoordinator(reset);
  CHECK(!bench.shard->serving());
  reset.incarnation = Incarnation{8};
  bench.FromCoordinator(reset);
  CHECK(!bench.shard->serving());
  bench.FromCoordinator(bench.MakeReset(2));
  CHECK(bench.shard->serving());
  bench.Forget();
  bench.FromCoordinator(bench.MakeReset(1));
  CHECK(bench.Silent());
  CHECK(bench.shard->generation() == Generation{2});
}

TEST_CASE("a new generation starts from version 0 with nothing of the old one", "[server][shard]") {
  ShardBench bench;
  bench.Start();
  const std::uint64_t fresh = bench.shard->store().Digest();
  bench.CompleteStep(0, 1.0F);
  bench.Commits(0);
  bench.Stage(1, 0, kLeaf0, 1, 1.0F);
  bench.FromWorker(bench.MakeEnd(1, 0));
  bench.FromWorker(bench.MakePull(2, {0}));  // waits
  bench.Forget();
  bench.FromCoordinator(bench.MakeReset(2));
  const ResetDone done = bench.Take<ResetDone>(kCoordinator).at(0);
  CHECK(done.generation == Generation{2});
  CHECK(bench.shard->store().Digest() == fresh);
  CHECK(bench.shard->version() == Version{0});
  CHECK(bench.shard->last_commit() == nullptr);
  CHECK(bench.shard->engine().staged_bytes() == 0);
  bench.FromCoordinator(Ping{Term{1}, Generation{2}});
  const Hello hello = bench.Take<Hello>(kCoordinator).at(0);
  CHECK(!hello.prepared);
  CHECK(hello.serving);
  CHECK(hello.generation == Generation{2});
}

TEST_CASE("a Reset that cannot be served is answered so, and what was served goes on", "[server][shard]") {
  ShardBench bench;
  bench.Start();
  std::vector<Reset> bad(5, bench.MakeReset(2));
  bad[0].snapshot = {Generation{1}, Version{3}};  // without a shard that has it
  bad[1].slot_count = 0;
  bad[2].catalog.clear();
  bad[3].catalog[0].shape = {-4};
  bad[4].slot_count = kSlotsMax + 1;
  for (const Reset& reset : bad) {
    bench.FromCoordinator(reset);
    const std::vector<ResetBad> answers = bench.Take<ResetBad>(kCoordinator);
    REQUIRE(answers.size() == 1);
    CHECK(!answers[0].reason.empty());
    CHECK(bench.shard->generation() == Generation{1});
  }
  bench.CompleteStep(0, 1.0F);
  bench.Commits(0);
  CHECK(bench.WeightOf(0) == -1.0F);
}

// ---- Hello ----------------------------------------------------------------------------------------------------------

TEST_CASE("a shard says Hello until a coordinator is heard, and again when it falls silent", "[server][shard]") {
  ShardBench bench;
  bench.Tick();
  std::vector<Hello> hellos = bench.Take<Hello>(kCoordinator);
  REQUIRE(hellos.size() == 1);
  CHECK(!hellos[0].serving);
  CHECK(hellos[0].endpoint == "here");
  CHECK(hellos[0].metrics == "here:9100");
  CHECK(hellos[0].config_hash == 11);
  bench.Tick(std::chrono::milliseconds(50));
  CHECK(bench.Take<Hello>(kCoordinator).empty());  // backing off
  bench.Tick(std::chrono::milliseconds(200));
  CHECK(bench.Take<Hello>(kCoordinator).size() == 1);
  bench.FromCoordinator(Ping{Term{1}, Generation{0}});
  CHECK(bench.Take<Hello>(kCoordinator).size() == 1);
  bench.Tick(std::chrono::milliseconds(1900));
  CHECK(bench.Take<Hello>(kCoordinator).empty());
  bench.Tick(std::chrono::milliseconds(3000));
  CHECK(bench.Take<Hello>(kCoordinator).size() == 1);
}

TEST_CASE("Hello tells a new coordinator what is prepared, at which attempt", "[server][shard]") {
  ShardBench bench;
  bench.Start().CompleteStep(0, 1.0F);
  bench.FromCoordinator(bench.MakeRedo(0, 1, 0.5F));
  bench.FromCoordinator(Ping{Term{2}, Generation{1}});
  const Hello hello = bench.Take<Hello>(kCoordinator).at(0);
  CHECK(hello.term == Term{2});
  REQUIRE(hello.prepared);
  CHECK(hello.prepared->step == Step{0});
  CHECK(hello.prepared->attempt == 1);
  CHECK(hello.prepared->report.segment_squares.size() == 3);
}

// ---- pulls ----------------------------------------------------------------------------------------------------------

TEST_CASE("a pull is answered with the published weights, whole and hashed", "[server][shard]") {
  ShardBench bench;
  bench.Start().CompleteStep(0, 1.0F);
  bench.Commits(0);
  bench.Forget();
  bench.FromWorker(bench.MakePull(1, {2, 0}));
  const std::vector<Weights> weights = bench.Take<Weights>();
  REQUIRE(weights.size() == 2);
  CHECK(weights[0].block == 2);
  CHECK(weights[1].block == 0);
  for (std::size_t i : {0U, 1U}) {
    CHECK(weights[i].version == Version{1});
    CHECK(weights[i].generation == Generation{1});
    CHECK(!weights[i].tentative);
    CHECK(!weights[i].stop);
    CHECK(bench.payloads[i].size == bench.SizeOf(weights[i].block) * sizeof(float));
    CHECK(Hash64(bench.payloads[i].bytes()) == weights[i].payload_hash);
  }
}

TEST_CASE("a pull waits until its version is published", "[server][shard]") {
  ShardBench bench;
  bench.Start().FromWorker(bench.MakePull(1, {0}));
  bench.FromWorker(bench.MakePull(1, {1}), {}, ShardBench::kOther);
  bench.CompleteStep(0, 1.0F);
  CHECK(bench.Take<Weights>().empty());
  bench.Commits(0);
  CHECK(bench.Take<Weights>().at(0).block == 0);
  CHECK(bench.Take<Weights>(ShardBench::kOther).at(0).block == 1);
  bench.CompleteStep(1, 1.0F);
  bench.Commits(1);
  CHECK(bench.Take<Weights>().empty());  // once
}

TEST_CASE("a pull of a version that is gone is stale and names the present step; one too far ahead comes too early",
          "[server][shard]") {
  ShardBench bench;
  bench.Start();
  for (std::uint64_t step : {0U, 1U}) {
    bench.CompleteStep(step, 1.0F);
    bench.Commits(step);
  }
  bench.Forget();
  bench.FromWorker(bench.MakePull(1, {0}));
  const std::vector<Error> errors = bench.Take<Error>();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kStale);
  CHECK(errors[0].step == Step{2});
  bench.FromWorker(bench.MakePull(2 + kPullsAheadMax + 1, {0}));
  CHECK(bench.Refused(Code::kBusy));
  bench.FromWorker(bench.MakePull(UINT64_MAX, {0}));
  CHECK(bench.Refused(Code::kBusy));
}

TEST_CASE("a pull of blocks that are not here, or of too many, is invalid", "[server][shard]") {
  ShardBench bench;
  bench.Start().FromWorker(bench.MakePull(0, {0, 3}));
  CHECK(bench.Refused(Code::kInvalid));
  bench.FromWorker(bench.MakePull(0, {UINT32_MAX}));
  CHECK(bench.Refused(Code::kInvalid));
  bench.FromWorker(bench.MakePull(0, std::vector<BlockIndex>(PullQueue::kBlocksMax + 1, 0)));
  CHECK(bench.Refused(Code::kInvalid));
  bench.FromWorker(bench.MakePull(0, {}));
  CHECK(bench.Silent());
}

TEST_CASE("one pull per peer waits, and not more than the limit", "[server][shard]") {
  ShardBench bench;
  bench.Start();
  for (std::uint64_t peer = 0; peer < PullQueue::kWaitingMax; ++peer) {
    bench.FromWorker(bench.MakePull(1, {0}), {}, PeerId{1000 + peer});
  }
  CHECK(bench.Silent());
  bench.FromWorker(bench.MakePull(1, {0}));
  CHECK(bench.Refused(Code::kBusy));
  bench.FromWorker(bench.MakePull(1, {1}), {}, PeerId{1000});  // replaces the peer's own pull
  CHECK(bench.Silent());
  CHECK(bench.metrics->waiting_pulls.value() == static_cast<double>(PullQueue::kWaitingMax));
  bench.CompleteStep(0, 1.0F);
  bench.Commits(0);
  CHECK(bench.Take<Weights>(PeerId{1000}).at(0).block == 1);
  CHECK(bench.Take<Weights>(PeerId{1001}).at(0).block == 0);
  CHECK(bench.metrics->waiting_pulls.value() == 0.0);
}

TEST_CASE("weights that were handed out stay as they were while later steps are published", "[server][shard]") {
  ShardBench bench;
  bench.Start().CompleteStep(0, 1.0F);
  bench.Commits(0);
  bench.FromWorker(bench.MakePull(1, {0}));
  const Weights weights = bench.Take<Weights>().at(0);
  const Slice held = bench.payloads.back();
  for (std::uint64_t step = 1; step < 5; ++step) {
    bench.CompleteStep(step, 1.0F);
    bench.Commits(step);
  }
  CHECK(bench.WeightOf(0) == -5.0F);
  CHECK(Hash64(held.bytes()) == weights.payload_hash);
}

TEST_CASE("after the last version the weights say so, and no step is prepared", "[server][shard]") {
  ShardBench bench({.shard = 4, .shard_count = 5, .slots = 2, .tensors = {4, 4, 4, 4, 4}});
  bench.Start();
  for (SlotIndex slot : {0U, 1U}) bench.Stage(0, 4, {slot, slot + 1}, 1, 1.0F);
  Commit last = bench.MakeCommit(0);
  last.next.stop = true;
  bench.FromCoordinator(last);
  bench.FromWorker(bench.MakePull(1, {4}));
  CHECK(bench.Take<Weights>().at(0).stop);
  for (SlotIndex slot : {0U, 1U}) bench.Stage(1, 4, {slot, slot + 1}, 1, 1.0F);
  CHECK(!bench.shard->engine().prepared());
}

}  // namespace
}  // namespace capstan::server
