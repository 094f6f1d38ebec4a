#include "server/shard/staged_block.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/base/hash.h"
#include "common/base/random.h"
#include "tests/catch.h"

namespace capstan::server {
namespace {

constexpr std::uint32_t kCount = 5;
using Values = std::vector<float>;

// The gradients of a job's slots, and the sums of the job's reduction tree, computed as they are defined.
class Slots {
 public:
  Slots(SlotIndex count, std::uint64_t seed) : random_(seed) {
    for (SlotIndex slot = 0; slot < count; ++slot) {
      samples_.push_back(random_.Below(4));  // 0 is one of them
      Values values(kCount);
      // The values have very different sizes, so that another order of additions shows.
      for (float& v : values) v = static_cast<float>(random_.Unit() - 0.5) * static_cast<float>(1 << random_.Below(24));
      means_.push_back(values);
    }
  }
  SlotIndex count() const { return static_cast<SlotIndex>(samples_.size()); }
  std::uint64_t SamplesOf(Node node) const {
    std::uint64_t samples = 0;
    for (SlotIndex slot = node.begin; slot < node.end; ++slot) samples += samples_[slot];
    return samples;
  }
  std::optional<Values> ValueOf(Node node) const {
    if (SamplesOf(node) == 0) return {};
    Values sum = means_[node.begin];
    if (node.IsLeaf()) {
      for (float& v : sum) v *= static_cast<float>(samples_[node.begin]);
      return sum;
    }
    const SlotIndex split = SplitPoint(node);
    const std::optional<Values> left = ValueOf({node.begin, split}), right = ValueOf({split, node.end});
    if (!left || !right) return left ? left : right;
    for (std::uint32_t i = 0; i < kCount; ++i) sum[i] = (*left)[i] + (*right)[i];
    return sum;
  }
  // Returns the payload that a worker would push for the node.
  Values PayloadOf(Node node) const { return node.IsLeaf() ? means_[node.begin] : ValueOf(node).value_or(Values()); }

 private:
  RandomStream random_;
  std::vector<std::uint64_t> samples_;
  std::vector<Values> means_;
};

class Stage {
 public:
  explicit Stage(const Slots& slots) : slots_(slots) {}

  StagedBlock::Outcome Add(Node node) { return Add(node, slots_.SamplesOf(node), slots_.PayloadOf(node)).outcome; }
  StagedBlock::Added Add(Node node, std::uint64_t samples, const Values& values, std::uint64_t session = 1) {
    Slice payload;
    if (samples > 0) {
      payload = WholeBuffer(received_.Take());
      std::memcpy(payload.owner->data(), values.data(), kCount * sizeof(float));
    }
    const std::uint64_t hash = samples > 0 ? Hash64(payload.bytes().first(kCount * sizeof(float))) : 0;
    return block.Add({SessionId{session}, node, samples, hash, std::move(payload), Encoding::kFp32},
                     ReductionTree(slots_.count()), kCount, &sums_);
  }
  std::optional<Values> Sum() const {
    std::optional<Values> sum;
    for (const StagedInput& input : block.Inputs()) {
      if (input.samples == 0) continue;
      Values values(kCount);
      std::memcpy(values.data(), input.values, kCount * sizeof(float));
      for (float& v : values) v *= input.node.IsLeaf() ? static_cast<float>(input.samples) : 1.0F;
      if (!sum) {
        sum = values;
        continue;
      }
      for (std::uint32_t i = 0; i < kCount; ++i) (*sum)[i] += values[i];
    }
    return sum;
  }
  std::size_t payloads() const {
    std::size_t held = 0;
    for (const StagedInput& input : block.Inputs()) held += input.values != nullptr ? 1 : 0;
    return held;
  }
  std::uint64_t bytes_in_use() const { return received_.in_use_bytes() + sums_.in_use_bytes(); }

  StagedBlock block;

 private:
  const Slots& slots_;
  BufferPool received_{kCount * sizeof(float)}, sums_{kCount * sizeof(float)};
};

std::vector<Node> AllNodes(SlotIndex slots) {
  std::vector<Node> nodes;
  for (SlotIndex begin = 0; begin < slots; ++begin) {
    for (SlotIndex end = begin + 1; end <= slots; ++end) {
      if (ReductionTree(slots).Has({begin, end})) nodes.push_back({begin, end});
    }
  }
  return nodes;
}

TEST_CASE("whatever nodes arrive, in whatever order and however often, the sum has the same bits",
          "[server][staging]") {
  RandomStream random(5);
  for (std::uint64_t round = 0; round < 3000; ++round) {
    const Slots slots(static_cast<SlotIndex>(1 + random.Below(9)), round);
    const Node root{0, slots.count()};
    const std::vector<Node> nodes = AllNodes(slots.count());
    Stage stage(slots);
    // Adds random nodes until all slots are covered. The root is added rarely, because it ends the loop at once.
    while (!stage.block.complete()) {
      const Node node = nodes[random.Below(nodes.size())];
      if (node == root && !root.IsLeaf() && random.Below(20) != 0) continue;
      const bool covered = stage.block.Covers(node);
      const std::vector<StagedInput> with =
          stage.block.InputsWith({node, slots.SamplesOf(node)}, ReductionTree(slots.count()));
      std::vector<Node> needed = stage.block.nodes();
      needed.insert(std::lower_bound(needed.begin(), needed.end(), node), node);
      const StagedBlock::Outcome outcome = stage.Add(node);
      REQUIRE(with.empty() == (covered || !stage.block.complete() || stage.block.nodes() != needed));
      for (std::size_t i = 0; i < with.size(); ++i) {
        REQUIRE(with[i].node == needed[i]);
        REQUIRE(with[i].samples == slots.SamplesOf(needed[i]));
      }
      REQUIRE(outcome == (covered ? StagedBlock::Outcome::kAlreadyStaged : StagedBlock::Outcome::kStaged));
      REQUIRE(stage.block.Covers(node));
      REQUIRE(stage.payloads() <= std::max(2U, (slots.count() + 1) / 2));
      const std::vector<Node> held = stage.block.nodes();
      REQUIRE(std::is_sorted(held.begin(), held.end()));
    }
    INFO("round " << round);
    REQUIRE(stage.block.samples() == slots.SamplesOf(root));
    REQUIRE(stage.Sum() == slots.ValueOf(root));
    for (Node node : nodes) REQUIRE(stage.Add(node) == StagedBlock::Outcome::kAlreadyStaged);
    REQUIRE(stage.Sum() == slots.ValueOf(root));
  }
}

TEST_CASE("a block is complete when every slot is covered, and not before", "[server][staging]") {
  const Slots slots(5, 1);
  Stage stage(slots);
  for (Node node : {Node{4, 5}, Node{0, 2}, Node{3, 4}, Node{0, 1}}) {
    const bool is_new = node != Node{0, 1};  // which lies in [0, 2)
    CHECK(stage.Add(node) == (is_new ? StagedBlock::Outcome::kStaged : StagedBlock::Outcome::kAlreadyStaged));
    CHECK(!stage.block.complete());
  }
  REQUIRE(stage.Add({2, 3}) == StagedBlock::Outcome::kStaged);
  CHECK(stage.block.complete());
  CHECK(stage.block.nodes() == std::vector<Node>{{0, 4}, {4, 5}});
}

TEST_CASE("siblings are added as soon as both are there, and their memory goes back", "[server][staging]") {
  const Slots slots(8, 4);
  Stage stage(slots);
  for (SlotIndex slot = 0; slot < 8; ++slot) stage.Add({slot, slot + 1}, 1, Values(kCount, 1.0F));
  CHECK(stage.block.nodes() == std::vector<Node>{{0, 4}, {4, 8}});
  CHECK(stage.payloads() == 2);
  CHECK(stage.bytes_in_use() == 2 * 64);  // one cache line each
  stage.block.ReleasePayloads();
  CHECK(stage.bytes_in_use() == 0);
  CHECK(stage.block.nodes().size() == 2);  // coverage stays
  CHECK(stage.block.samples() == 8);
  stage.block.Clear();
  CHECK(stage.block.nodes().empty());
  CHECK(!stage.block.complete());
  CHECK(stage.Add({0, 1}, 2, Values(kCount, 3.0F)).outcome == StagedBlock::Outcome::kStaged);  // nothing is remembered
}

TEST_CASE("an equal node with another payload is a mismatch, with other samples a disagreement; the first copy counts",
          "[server][staging]") {
  using Outcome = StagedBlock::Outcome;
  const Slots slots(3, 1);
  Stage stage(slots);
  const Values a(kCount, 1.0F), b(kCount, 2.0F);
  CHECK(stage.Add({0, 1}, 1, a, 7).outcome == Outcome::kStaged);
  CHECK(stage.Add({0, 1}, 1, a, 8).outcome == Outcome::kAlreadyStaged);
  const StagedBlock::Added mismatch = stage.Add({0, 1}, 1, b, 8);
  CHECK(mismatch.outcome == Outcome::kMismatch);
  CHECK(mismatch.first == SessionId{7});
  const StagedBlock::Added disagrees = stage.Add({0, 1}, 2, a, 8);
  CHECK(disagrees.outcome == Outcome::kDisagrees);
  CHECK(disagrees.first == SessionId{7});
  CHECK(disagrees.had == 1);
  CHECK(stage.Add({0, 1}, 0, {}, 8).outcome == Outcome::kDisagrees);
  CHECK(stage.Add({1, 2}, 1, b, 8).outcome == Outcome::kStaged);
  CHECK(stage.Add({0, 1}, 1, b, 8).outcome == Outcome::kMismatch);  // also when it is part of a sum
  CHECK(stage.Add({0, 1}, 2, a, 8).outcome == Outcome::kDisagrees);
  const StagedBlock::Added sum = stage.Add({0, 2}, 3, b, 9);
  CHECK(sum.outcome == Outcome::kDisagrees);
  CHECK(sum.first == SessionId{});  // two sessions have sent its parts
  CHECK(sum.had == 2);
  CHECK(stage.Add({2, 3}, 1, a, 7).outcome == Outcome::kStaged);
  CHECK(stage.Add({0, 3}, 4, a, 9).outcome == Outcome::kDisagrees);
  CHECK(stage.Add({0, 3}, 3, a, 9).outcome == Outcome::kAlreadyStaged);
  CHECK(stage.Sum() == Values(kCount, 4.0F));
}

}  // namespace
}  // namespace capstan::server
