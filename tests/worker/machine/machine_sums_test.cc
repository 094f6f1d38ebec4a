#include "worker/machine/machine_sums.h"

#include <cstring>

#include "common/base/random.h"
#include "tests/catch.h"

namespace capstan::train {
namespace {

constexpr std::size_t kCount = 37;

MachineHead Head(std::vector<MachineHead::Part> parts, std::uint64_t step = 7) {
  return {Generation{2}, Step{step}, true, std::move(parts)};
}

TEST_CASE("a head comes back as it was written", "[machine]") {
  const MachineHead head = Head({{{0, 2}, 9}, {{2, 3}, 0}});
  std::vector<float> words(MachineHead::kFloats);
  head.Write(words);
  const MachineHead read = MachineHead::Read(words);
  CHECK(read.generation == head.generation);
  CHECK(read.step == head.step);
  CHECK(read.joins);
  CHECK(read.parts == head.parts);
}

TEST_CASE("workers of one step add up what makes fewer nodes", "[machine]") {
  const MachinePlan all =
      PlanMachineSums({Head({{{4, 5}, 1}}), Head({{{0, 2}, 2}, {{2, 3}, 3}}), Head({{{3, 4}, 4}})}, 5);
  CHECK(all.sums == std::vector<MachinePlan::Sum>{{{0, 5}, 10}});
  CHECK(all.parts_each == 2);
  REQUIRE(all.parts.size() == 4);
  CHECK(all.parts[0].rank == 1);
  CHECK(all.parts[3].rank == 0);
  CHECK(all.parts[1].number == 1);
  CHECK(all.parts[1].samples == 3);
  CHECK(PlanMachineSums({Head({{{0, 1}, 1}}), Head({{{1, 2}, 1}}), Head({{{2, 3}, 1}})}, 4).sums ==
        std::vector<MachinePlan::Sum>{{{0, 2}, 2}, {{2, 3}, 1}});
}

TEST_CASE("workers that have nothing to add up, or bring what does not fit, push by themselves", "[machine]") {
  CHECK(PlanMachineSums({Head({{{0, 2}, 1}}), Head({{{2, 3}, 1}})}, 5).sums.empty());               // no siblings
  CHECK(PlanMachineSums({Head({{{0, 1}, 1}}), Head({{{1, 2}, 1}}, 8)}, 2).sums.empty());            // another step
  CHECK(PlanMachineSums({Head({{{0, 2}, 1}}), Head({{{1, 2}, 1}})}, 2).sums.empty());               // a slot twice
  CHECK(PlanMachineSums({Head({{{0, 1}, 1}}), Head({{{1, 2}, 1}, {{5, 6}, 1}})}, 4).sums.empty());  // not of the tree
  MachineHead alone = Head({{{1, 2}, 1}});
  alone.joins = false;
  CHECK(PlanMachineSums({Head({{{0, 1}, 1}}), alone}, 2).sums.empty());
}

std::vector<float> Values(RandomStream& random) {
  std::vector<float> values(kCount);
  for (float& value : values) value = static_cast<float>(random.Below(2000001)) / 1000.0F - 1000.0F;
  return values;
}

// Returns the sum over a node's slots, added along the tree from its leaves, as a shard adds. `kept` owns the sums.
StagedInput SumOf(Node node, const std::vector<StagedInput>& leaves, std::vector<std::vector<float>>* kept) {
  if (node.IsLeaf()) return leaves[node.begin];
  const SlotIndex split = SplitPoint(node);
  const StagedInput left = SumOf({node.begin, split}, leaves, kept);
  const StagedInput right = SumOf({split, node.end}, leaves, kept);
  kept->emplace_back(kCount);
  AddNodes(left, right, kCount, kept->back().data());
  return {node, left.samples + right.samples, reinterpret_cast<const std::byte*>(kept->back().data()), Encoding::kFp32};
}

// Cuts a node at random into smaller nodes, which stand for the parts that workers have.
void Cut(Node node, RandomStream& random, std::vector<Node>* cut) {
  if (node.IsLeaf() || random.Below(3) == 0) return cut->push_back(node);
  const SlotIndex split = SplitPoint(node);
  Cut({node.begin, split}, random, cut);
  Cut({split, node.end}, random, cut);
}

TEST_CASE("a sum has the bits of the job's tree, however its parts are cut and whoever has no samples", "[machine]") {
  RandomStream random(31);
  HostAddition addition;
  for (int round = 0; round < 500; ++round) {
    const auto slots = static_cast<SlotIndex>(1 + random.Below(9));
    std::vector<std::vector<float>> kept;
    kept.reserve(200);
    std::vector<StagedInput> leaves;
    for (SlotIndex slot = 0; slot < slots; ++slot) {
      kept.push_back(Values(random));
      leaves.push_back({{slot, slot + 1}, random.Below(4), reinterpret_cast<const std::byte*>(kept.back().data())});
    }
    std::vector<Node> cut;
    Cut({0, slots}, random, &cut);
    std::vector<StagedInput> parts;
    for (Node node : cut) parts.push_back(SumOf(node, leaves, &kept));
    const StagedInput expected = SumOf({0, slots}, leaves, &kept);
    std::vector<float> out(kCount);
    const StagedInput sum = AddUp({0, slots}, parts, kCount, out.data(), addition);
    REQUIRE(sum.node == expected.node);
    REQUIRE(sum.samples == expected.samples);
    REQUIRE((sum.samples == 0 || std::memcmp(sum.values, expected.values, kCount * sizeof(float)) == 0));
  }
}

}  // namespace
}  // namespace capstan::train
