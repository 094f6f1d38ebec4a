#include "worker/client/slot_sums.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/base/random.h"
#include "tests/catch.h"

namespace capstan::client {
namespace {

constexpr std::uint64_t kCount = 24;
using Values = std::vector<float>;

struct SlotData {
  std::uint64_t samples = 0;
  Values mean;
};

std::vector<SlotData> Draw(SlotIndex slots, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<SlotData> data(slots);
  for (SlotData& slot : data) {
    slot.samples = random.Below(4);
    slot.mean.resize(kCount);
    // The values have very different sizes, so that another order of additions gives other bits.
    for (float& v : slot.mean) v = static_cast<float>(random.Unit() - 0.5) * static_cast<float>(1 << random.Below(24));
  }
  return data;
}

std::uint64_t SamplesOf(const std::vector<SlotData>& data, Node node) {
  std::uint64_t samples = 0;
  for (SlotIndex slot = node.begin; slot < node.end; ++slot) samples += data[slot].samples;
  return samples;
}

// Computes a node's sum by its definition: nothing if the node has no samples.
std::optional<Values> ValueOf(const std::vector<SlotData>& data, Node node) {
  if (SamplesOf(data, node) == 0) return {};
  Values sum = data[node.begin].mean;
  if (node.IsLeaf()) {
    for (float& v : sum) v *= static_cast<float>(data[node.begin].samples);
    return sum;
  }
  const SlotIndex split = SplitPoint(node);
  const std::optional<Values> left = ValueOf(data, {node.begin, split}), right = ValueOf(data, {split, node.end});
  if (!left || !right) return left ? left : right;
  for (std::uint64_t i = 0; i < kCount; ++i) sum[i] = (*left)[i] + (*right)[i];
  return sum;
}

// Runs all slots. The gradient of each slot becomes final in pieces of `piece` elements, beginning at the end as in a
// backward pass.
void Run(const std::vector<SlotData>& data, std::uint64_t piece, BufferPool* pool, SlotSums* sums) {
  const std::vector<SlotIndex> slots = sums->slots();
  for (SlotIndex slot : slots) {
    BufferRef gradient = pool->Take();
    float* values = gradient.As<float>();
    sums->BeginSlot(data[slot].samples, std::move(gradient));
    for (std::uint64_t end = kCount; end > 0;) {
      const std::uint64_t count = std::min(piece, end), first = end - count;
      if (data[slot].samples > 0) std::memcpy(values + first, data[slot].mean.data() + first, count * sizeof(float));
      sums->RangeReady(first, count);
      end = first;
    }
  }
}

TEST_CASE("any slots give the fewest nodes, with the values and counts of the tree, however ranges become final",
          "[client][sums]") {
  RandomStream random(3);
  for (std::uint64_t round = 0; round < 1500; ++round) {
    const auto slot_count = static_cast<SlotIndex>(1 + random.Below(10));
    const std::vector<SlotData> data = Draw(slot_count, round);
    std::vector<SlotIndex> slots;
    for (SlotIndex slot = 0; slot < slot_count; ++slot) {
      if (random.Below(4) != 0) slots.push_back(slot);
    }
    if (slots.empty()) slots.push_back(0);
    SlotSums sums(slots, ReductionTree(slot_count));
    BufferPool pool(kCount * sizeof(float));
    Run(data, 1 + random.Below(kCount), &pool, &sums);
    REQUIRE(sums.at_last_slot());
    std::vector<Node> nodes;
    for (const SlotSums::PartialSum& part : sums.parts()) {
      nodes.push_back(part.node);
      INFO("round " << round << " node [" << part.node.begin << ", " << part.node.end << ")");
      REQUIRE(part.samples == SamplesOf(data, part.node));
      REQUIRE(static_cast<bool>(part.gradient) == (part.samples > 0));
      if (part.samples == 0) continue;
      Values values(kCount);
      std::memcpy(values.data(), part.gradient->data(), kCount * sizeof(float));
      REQUIRE(values == (part.node.IsLeaf() ? data[part.node.begin].mean : *ValueOf(data, part.node)));
    }
    REQUIRE(nodes == ReductionTree(slot_count).Cover(slots));
  }
}

TEST_CASE("what is summed needs memory by the depth of the tree, not by the number of slots", "[client][sums]") {
  const std::vector<SlotData> data(64, {1, Values(kCount, 1.0F)});
  std::vector<SlotIndex> slots(64);
  for (SlotIndex slot = 0; slot < 64; ++slot) slots[slot] = slot;
  SlotSums sums(slots, ReductionTree(64));
  BufferPool pool(kCount * sizeof(float));
  Run(data, kCount, &pool, &sums);
  REQUIRE(sums.parts().size() == 1);
  CHECK(sums.parts()[0].samples == 64);
  CHECK(sums.parts()[0].gradient.As<float>()[0] == 64.0F);
  CHECK(pool.allocated_bytes() / pool.buffer_bytes() <= 9);
}

TEST_CASE("a job whose aggregation adds nothing keeps each slot's own gradient", "[client][sums]") {
  const std::vector<SlotData> data = Draw(4, 9);
  const std::vector<SlotIndex> slots = {0, 1, 2, 3};
  SlotSums sums(slots, ReductionTree(4, Aggregation::kMedian));
  BufferPool pool(kCount * sizeof(float));
  Run(data, kCount, &pool, &sums);
  REQUIRE(sums.parts().size() == slots.size());
  for (SlotIndex slot : slots) {
    const SlotSums::PartialSum& part = sums.parts()[slot];
    CHECK(part.node == Node{slot, slot + 1});
    CHECK(part.samples == data[slot].samples);
    if (part.samples == 0) continue;
    CHECK(std::memcmp(part.gradient->data(), data[slot].mean.data(), kCount * sizeof(float)) == 0);
  }
}

TEST_CASE("before the last slot the parts are not final", "[client][sums]") {
  SlotSums sums({0, 1, 3}, ReductionTree(4));
  BufferPool pool(kCount * sizeof(float));
  CHECK(!sums.at_last_slot());
  for (int i = 0; i < 3; ++i) {
    CHECK(!sums.at_last_slot());
    sums.BeginSlot(1, pool.Take());
  }
  CHECK(sums.at_last_slot());
  REQUIRE(sums.parts().size() == 2);
  CHECK(sums.parts()[0].node == Node{0, 2});
  CHECK(sums.parts()[1].node == Node{3, 4});
}

}  // namespace
}  // namespace capstan::client
