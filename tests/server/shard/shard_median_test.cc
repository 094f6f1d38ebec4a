// A shard whose steps take the median of the slots' gradients.
#include <vector>

#include "common/wire/messages/prepared.h"
#include "server/shard/shard_memory.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

ShardHarnessOptions MedianOf(SlotIndex slots) {
  return {.aggregation = Aggregation::kMedian, .slots = slots, .tensors = {4}};
}

void EndSlots(ShardHarness* harness, SlotIndex slots) {
  for (SlotIndex slot = 0; slot < slots; ++slot) harness->FromWorker(harness->MakeEnd(0, slot));
}

TEST_CASE("one slot far off moves the weights no further than its neighbours do", "[server][shard][median]") {
  ShardHarness harness(MedianOf(3));
  harness.Start();
  harness.Stage(0, 0, {2, 3}, 1, 1e30F);
  harness.Stage(0, 0, {0, 1}, 1, 2.0F);
  harness.Stage(0, 0, {1, 2}, 1, 3.0F);
  EndSlots(&harness, 3);
  CHECK(harness.Take<Prepared>(ShardHarness::kCoordinator).at(0).report.segment_squares == std::vector<double>{36.0});
  harness.Commits(0);
  CHECK(harness.WeightOf(0) == -3.0F);
}

TEST_CASE("slots count alike whatever their samples, and not at all without samples", "[server][shard][median]") {
  ShardHarness harness(MedianOf(5));
  harness.Start();
  harness.Stage(0, 0, {0, 1}, 0, 0.0F);
  harness.Stage(0, 0, {1, 2}, 1000, 9.0F);
  harness.Stage(0, 0, {2, 3}, 1, 2.0F);
  harness.Stage(0, 0, {3, 4}, 1, 4.0F);
  harness.Stage(0, 0, {4, 5}, 1, 1.0F);
  EndSlots(&harness, 5);
  harness.Commits(0);
  CHECK(harness.WeightOf(0) == -3.0F);  // half of 2 and 4
}

TEST_CASE("a Redo clips the median that was kept", "[server][shard][median]") {
  ShardHarness harness(MedianOf(3));
  harness.Start();
  for (SlotIndex slot = 0; slot < 3; ++slot) harness.Stage(0, 0, {slot, slot + 1}, 7, 8.0F * static_cast<float>(slot));
  EndSlots(&harness, 3);
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.25F));
  harness.Commits(0, 1);
  CHECK(harness.WeightOf(0) == -2.0F);
}

TEST_CASE("a sum of slots is refused, and the slots' own gradients are still taken", "[server][shard][median]") {
  ShardHarness harness(MedianOf(2));
  harness.Start();
  harness.Stage(0, 0, {0, 2}, 2, 6.0F);
  CHECK(harness.Refused(Code::kInvalid));
  harness.Stage(0, 0, {0, 1}, 1, 1.0F);
  harness.Stage(0, 0, {1, 2}, 1, 3.0F);
  EndSlots(&harness, 2);
  harness.Commits(0);
  CHECK(harness.WeightOf(0) == -2.0F);
}

TEST_CASE("the account of memory has a gradient of every slot for each block of the window",
          "[server][memory][median]") {
  constexpr std::uint64_t kElements = std::uint64_t{1} << 32;
  ShardOptions options;
  const std::uint64_t mean = CountShardMemory(options, kElements, 8).window;
  options.job.aggregation = Aggregation::kMedian;
  CHECK(CountShardMemory(options, kElements, 8).window == 8 * mean);
  CHECK(CountShardMemory(options, 1000, kSlotsMax).window == 1000 * sizeof(float) * kSlotsMax);
}

}  // namespace
}  // namespace capstan::server
