// A shard and the limits by which a program has a step clipped.
#include "common/wire/messages/disagreement.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/shard_orders.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

using Catch::Matchers::Contains;

void EndClipped(ShardHarness* harness, std::uint64_t step, SlotIndex slot, const Clipping& clipping) {
  EndSlot end = harness->MakeEnd(step, slot);
  end.report.clipping = clipping;
  harness->FromWorker(end);
}

std::string ClippingRefusal(ShardHarness* harness, Code code) {
  const std::vector<Error> errors = harness->Take<Error>();
  return errors.size() == 1 && errors[0].code == code ? errors[0].message : "no refusal";
}

TEST_CASE("the limits that slots bring are in the report", "[server][clipping]") {
  ShardHarness harness({.slots = 2, .tensors = {4}});
  harness.Start().Stage(0, 0, {0, 2}, 2, 1.0F);
  EndClipped(&harness, 0, 0, {.norm = 1.5});
  EndClipped(&harness, 0, 1, {.norm = 1.5});
  const PrepareReport report = harness.Take<Prepared>(kCoordinator).at(0).report;
  for (const SlotReport& slot : report.slots) CHECK(slot.clipping == Clipping{.norm = 1.5});
}

TEST_CASE("of two limits of a step the second is not taken, and the coordinator learns who brought both",
          "[server][clipping]") {
  ShardHarness harness({.slots = 2, .tensors = {4}});
  harness.Start().Tell({harness.MakeSession(1, "a"), harness.MakeSession(2, "b")});
  EndClipped(&harness, 0, 1, {.norm = 1.5});
  harness.Forget();
  harness.session = SessionId{2};
  EndClipped(&harness, 0, 0, {});  // none is another limit
  const std::string text = ClippingRefusal(&harness, Code::kBusy);
  CHECK_THAT(text, Contains("step 0: slot 0 ends with the limits none for clipping, slot 1 ended with norm 1.5;"));
  const std::vector<Disagreement> disagreements = harness.Take<Disagreement>(kCoordinator);
  REQUIRE(disagreements.size() == 1);
  CHECK(disagreements[0].first == SessionId{1});
  CHECK(disagreements[0].second == SessionId{2});
  CHECK(disagreements[0].what == text);
  CHECK(harness.Coverage(0).ended == std::vector<SlotIndex>{1});
  EndClipped(&harness, 0, 0, {.norm = 1.5});
  CHECK(harness.Take<Error>().empty());
}

TEST_CASE("the limits of a slot without samples are not the step's, in whatever order slots end",
          "[server][clipping]") {
  for (const SlotIndex empty : {0U, 1U}) {
    ShardHarness harness({.slots = 2, .tensors = {4}});
    harness.Start().Stage(0, 0, {0, 2}, 1, 1.0F);
    for (const SlotIndex slot : {0U, 1U}) {
      EndSlot end = harness.MakeEnd(0, slot);
      end.report.samples = slot == empty ? 0 : 1;
      end.report.clipping = {.norm = slot == empty ? 9.0 : 1.5};
      harness.FromWorker(end);
    }
    CHECK(harness.Take<Error>().empty());
    CHECK(harness.Take<Disagreement>(kCoordinator).empty());
    CHECK(harness.Take<Prepared>(kCoordinator).size() == 1);
  }
}

TEST_CASE("each step has limits of its own", "[server][clipping]") {
  ShardHarness harness({.slots = 1, .tensors = {4}});
  harness.Start();
  for (std::uint64_t step : {0U, 1U}) {
    harness.Stage(step, 0, {0, 1}, 1, 1.0F);
    EndClipped(&harness, step, 0, {.norm = 1.0 + static_cast<double>(step)});
    CHECK(harness.Take<Prepared>(kCoordinator).at(0).report.slots.at(0).clipping.norm ==
          1.0 + static_cast<double>(step));
    harness.Commits(step);
    harness.Forget();
  }
}

TEST_CASE("a limit that is no limit, or that comes outside mode sync, is invalid", "[server][clipping]") {
  ShardHarness harness({.slots = 1, .tensors = {4}});
  harness.Start();
  EndClipped(&harness, 0, 0, {.norm = -1.0});
  CHECK_THAT(ClippingRefusal(&harness, Code::kInvalid), Contains("slot 0: the norm to clip to is -1"));
  ShardHarness async({.mode = Mode::kAsync, .slots = 1, .tensors = {4}});
  async.Start();
  EndClipped(&async, 1, 0, {.norm = 1.0});
  CHECK_THAT(ClippingRefusal(&async, Code::kInvalid), Contains("only mode sync takes one"));
}

TEST_CASE("Redo limits each element of the averaged gradient, for that step only", "[server][clipping]") {
  ShardHarness harness;
  harness.Start().CompleteStep(0, 8.0F);
  const Prepared first = harness.Take<Prepared>(kCoordinator).at(0);
  Redo redo = harness.MakeRedo(0, 1, 1.0F);
  redo.clip_value = 3.0F;
  harness.FromCoordinator(redo);
  CHECK(harness.Take<Prepared>(kCoordinator).at(0).report == first.report);  // before clipping
  harness.Commits(0, 1);
  for (std::size_t index : {0U, 1U, 2U}) CHECK(harness.WeightOf(index) == -3.0F);
  harness.CompleteStep(1, 8.0F);
  harness.Commits(1);
  CHECK(harness.WeightOf(0) == -11.0F);
}

}  // namespace
}  // namespace capstan::server
