// A Reset leaves nothing of the timeline before. In each mode, a shard that was in the middle of a job answers after
// the Reset as a shard that has just started.
#include "common/wire/messages/commit.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/wire_codec.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

using Catch::Matchers::Contains;

constexpr BlockIndex kBlocks = 3;

// Returns everything that the shard has sent since the last call, as bytes.
std::vector<std::vector<std::byte>> TakeBytes(ShardHarness* harness) {
  std::vector<std::vector<std::byte>> sent;
  for (const Envelope& envelope : harness->out().envelopes) {
    REQUIRE(EncodeHeader(envelope.message.header, &sent.emplace_back()).ok());
    const std::span<const std::byte> payload = envelope.message.payload.bytes();
    sent.back().insert(sent.back().end(), payload.begin(), payload.end());
    sent.back().push_back(static_cast<std::byte>(envelope.to.value));
  }
  harness->Forget();
  return sent;
}

// Sends the shard messages of every kind for one step. `ends`: whether the step is complete and is committed.
void Work(ShardHarness* harness, std::uint64_t step, float value, bool ends) {
  Pull waiting = harness->MakePull(step + 1, {0, 1, 2});
  waiting.follows = true;
  waiting.speculative = {2, 1};
  harness->FromWorker(waiting, {}, kOther);
  for (BlockIndex left = ends ? kBlocks : kBlocks - 1; left > 0; --left) {
    const BlockIndex block = left - 1;
    harness->Stage(step, block, kLeaf0, 1, value);
    harness->Stage(step, block, kLeaf1, 3, 2 * value, kOther);
    const Slice array = harness->Values(harness->SizeOf(block), value);
    harness->FromWorker(
        UploadBlock{harness->generation, Incarnation{7}, SessionId{1}, block, Hash64(array.bytes()), Step{step}, 0},
        array);
  }
  for (const std::uint64_t of : {step, step + 1}) {
    EndSlot end = harness->MakeEnd(of, 0);
    end.program_state = "state " + std::to_string(of);
    harness->FromWorker(end);
    if (ends) harness->FromWorker(harness->MakeEnd(of, 1), {}, kOther);
  }
  harness->FromWorker(CoverageQuery{harness->generation, Incarnation{7}, SessionId{1}, Step{step}});
  CoverageQuery question{harness->generation, Incarnation{7}, SessionId{1}, Step{step}};
  question.question = 5;
  question.nodes = {{0, kLeaf0}, {2, kLeaf1}};
  harness->FromWorker(question, {}, kOther);
  harness->Tick(std::chrono::seconds(10));
  harness->FromCoordinator(harness->MakeRedo(step, 1, 0.5F));
  if (ends) harness->Commits(step, 1);
  StepParameters parameters;
  parameters.updates = step;
  parameters.learning_rate = 0.5F;
  harness->FromCoordinator(ClockUpdate{Term{1}, harness->generation, SequenceNumber{step}, parameters});
  harness->FromWorker(harness->MakePull(step + 1, {0, 1, 2}));
  harness->Tick(std::chrono::seconds(10));
}

std::vector<std::vector<std::byte>> AnswersAfterReset(ShardHarness* harness, std::uint64_t first) {
  harness->generation = Generation{5};
  harness->Forget();
  Reset reset = harness->MakeReset(5);
  reset.parameters.upload_next = true;
  harness->FromCoordinator(reset);
  Work(harness, first, 1.0F, true);
  Work(harness, first + 1, 2.0F, false);
  harness->FromCoordinator(harness->MakePin(harness->shard->version().value));
  return TakeBytes(harness);
}

TEST_CASE("a shard that is reset in the middle of a job answers as a fresh one", "[server][reset]") {
  const Mode mode = GENERATE(Mode::kSync, Mode::kAllReduce, Mode::kAsync, Mode::kBounded);
  const bool logs = !HasGlobalSteps(mode) && GENERATE(false, true);
  CAPTURE(static_cast<int>(mode), logs);
  const std::uint64_t first = HasGlobalSteps(mode) ? 0 : 1;  // sequence numbers begin with 1
  const ShardHarnessOptions options{.mode = mode,
                                    .slots = 2,
                                    .window_blocks = 3,
                                    .acknowledge = logs ? Acknowledge::kDurable : Acknowledge::kReceived};
  ShardHarness used(options), fresh(options);
  used.Start();
  Work(&used, first, 7.0F, true);
  Work(&used, first + 1, 8.0F, false);
  fresh.now = used.now;
  const auto expected = AnswersAfterReset(&fresh, first);
  CHECK(expected.size() > 20);
  CHECK(AnswersAfterReset(&used, first) == expected);
  CHECK(used.shard->store().Digest() == fresh.shard->store().Digest());
}

// Here the shard handles two messages before Flush, which would send the acknowledgement of the first one.
TEST_CASE("a Reset that arrives right behind a push leaves nothing to acknowledge", "[server][reset]") {
  const Mode mode = GENERATE(Mode::kSync, Mode::kAsync);
  CAPTURE(static_cast<int>(mode));
  ShardHarness harness({.mode = mode, .slots = 2, .window_blocks = 3});
  harness.Start();
  harness.Forget();
  const Slice payload = harness.Values(harness.SizeOf(0), 1.0F);
  const Push push = harness.MakePush(HasGlobalSteps(mode) ? 0 : 1, 0, kLeaf0, 1, payload);
  Outbox out;
  harness.shard->Handle(kWorker, {push, payload}, harness.now, &out);
  harness.shard->Handle(kCoordinator, {harness.MakeReset(5), {}}, harness.now, &out);
  harness.shard->Flush(harness.now, &out);
  for (const Envelope& envelope : out.envelopes) CHECK_FALSE(envelope.message.header.Is<Staged>());
}

// ---- numbers that no job reaches -----------------------------------------------------------------------------------

TEST_CASE("a shard does not take a term that no job reaches, and goes on with its coordinator", "[server][reset]") {
  for (std::uint64_t far : {std::uint64_t{1} << 63, UINT64_MAX, (std::uint64_t{1} << 20) + 2}) {
    ShardHarness harness;
    harness.Start().FromCoordinator(Ping{Term{far}, Generation{1}});
    CHECK(harness.Take<Hello>(kCoordinator).empty());
    CHECK(harness.shard->term() == Term{1});
    REQUIRE(harness.notices().size() == 1);
    CHECK_THAT(harness.notices()[0].text, Contains("term " + std::to_string(far)));
    harness.FromCoordinator(Ping{Term{far}, Generation{1}});
    CHECK(harness.notices().size() == 1);
    harness.FromCoordinator(Ping{Term{2}, Generation{1}});
    CHECK(harness.Take<Hello>(kCoordinator).at(0).term == Term{2});
  }
}

TEST_CASE("a shard with a new directory takes the term and the generation of an old job", "[server][reset]") {
  ShardHarness harness;
  harness.FromCoordinator(Ping{Term{100'000}, Generation{5}});
  CHECK(harness.Take<Hello>(kCoordinator).at(0).term == Term{100'000});
  Reset reset = harness.MakeReset(1'000'000'000);
  reset.term = Term{100'000};
  harness.FromCoordinator(reset);
  CHECK(harness.shard->generation() == Generation{1'000'000'000});
}

TEST_CASE("a Reset to a generation that no job reaches is ignored", "[server][reset]") {
  for (std::uint64_t far : {std::uint64_t{1} << 63, UINT64_MAX, (std::uint64_t{1} << 32) + 2}) {
    ShardHarness harness;
    harness.Start().FromCoordinator(harness.MakeReset(far));
    CHECK(harness.shard->generation() == Generation{1});
    CHECK(harness.Take<ResetDone>(kCoordinator).empty());
    harness.FromCoordinator(harness.MakeReset(2));
    CHECK(harness.shard->generation() == Generation{2});
  }
}

}  // namespace
}  // namespace capstan::server
