#include "update/median.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/data/encoding.h"
#include "common/wire/messages/limits.h"
#include "tests/catch.h"
#include "tests/tier.h"
#include "tests/update/block_fixture.h"

namespace capstan::server {
namespace {

constexpr float kInfiniteFloat = std::numeric_limits<float>::infinity();

std::vector<Contribution> RandomSlots(RandomStream* random, SlotIndex slots, std::size_t count) {
  std::vector<Contribution> leaves;
  for (SlotIndex slot = 0; slot < slots; ++slot) {
    const std::uint64_t samples = slot > 0 && random->Below(4) == 0 ? 0 : 1 + random->Below(9);
    leaves.emplace_back(Node{slot, slot + 1}, samples, RandomFloats(random, count));
  }
  return leaves;
}

std::vector<StagedInput> InputsOf(const std::vector<Contribution>& leaves) {
  std::vector<StagedInput> inputs;
  for (const Contribution& leaf : leaves) inputs.push_back(leaf.input());
  return inputs;
}

// Computes a median by its definition.
float MedianOf(const std::vector<Contribution>& leaves, std::size_t i) {
  std::vector<float> values;
  for (const Contribution& leaf : leaves) {
    if (leaf.samples() > 0) values.push_back(leaf.value(i));
  }
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) * 0.5F;
}

Floats Column(std::initializer_list<float> values) {
  std::vector<Contribution> leaves;
  for (float value : values) {
    const auto slot = static_cast<SlotIndex>(leaves.size());
    leaves.emplace_back(Node{slot, slot + 1}, 1, Floats(1, value));
  }
  Floats out(1);
  MedianTile(InputsOf(leaves), 0, 1, out.data());
  return out;
}

TEST_CASE("medians of any number of slots are those of the definition, in any tile", "[update][median]") {
  RandomStream random(7);
  const std::uint64_t count_max = testing::TestTier() == testing::Tier::kAll ? 3000 : 1000;
  for (SlotIndex slots = 1; slots <= 70; ++slots) {
    const std::size_t count = 1 + random.Below(count_max);
    const std::vector<Contribution> leaves = RandomSlots(&random, slots, count);
    const std::size_t begin = random.Below(count), some = 1 + random.Below(count - begin);
    Floats out(some);
    MedianTile(InputsOf(leaves), begin, some, out.data());
    std::size_t right = 0;
    while (right < some && out[right] == MedianOf(leaves, begin + right)) ++right;
    INFO(slots << " slots, wrong from element " << begin + right);
    REQUIRE(right == some);
  }
}

TEST_CASE("a job with the most slots has medians, too", "[update][median]") {
  RandomStream random(8);
  const std::vector<Contribution> leaves = RandomSlots(&random, kSlotsMax, 9);
  Floats out(9);
  MedianTile(InputsOf(leaves), 0, 9, out.data());
  for (std::size_t i = 0; i < 9; ++i) REQUIRE(out[i] == MedianOf(leaves, i));
}

TEST_CASE("infinities are values; where one value is not a number, the median is none", "[update][median]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(Column({kInfiniteFloat, 1.0F, 2.0F})[0] == 2.0F);
  CHECK(Column({-kInfiniteFloat, kInfiniteFloat, 2.0F})[0] == 2.0F);
  for (int place = 0; place < 5; ++place) {
    float v[5] = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F};
    v[place] = nan;
    CHECK(std::isnan(Column({v[0], v[1], v[2], v[3], v[4]})[0]));
  }
  CHECK(std::isnan(Column({nan})[0]));
  CHECK(std::isnan(Column({-kInfiniteFloat, kInfiniteFloat})[0]));
}

TEST_CASE("16-bit gradients are widened first", "[update][median]") {
  for (Encoding encoding : {Encoding::kBf16, Encoding::kFp16}) {
    constexpr std::size_t kCount = 600;
    RandomStream random(9);
    std::vector<std::vector<std::byte>> narrow;
    std::vector<Contribution> wide;
    std::vector<StagedInput> inputs;
    for (SlotIndex slot = 0; slot < 4; ++slot) {
      Floats values = RandomFloats(&random, kCount);
      RoundTo(encoding, {values.data(), kCount});
      narrow.emplace_back(kCount * sizeof(std::uint16_t));
      Encode(encoding, {values.data(), kCount}, narrow.back().data());
      wide.emplace_back(Node{slot, slot + 1}, 1, values);
    }
    for (SlotIndex slot = 0; slot < 4; ++slot) inputs.push_back({{slot, slot + 1}, 1, narrow[slot].data(), encoding});
    Floats out(kCount);
    MedianTile(inputs, 0, kCount, out.data());
    for (std::size_t i = 0; i < kCount; ++i) REQUIRE(out[i] == MedianOf(wide, i));
  }
}

}  // namespace
}  // namespace capstan::server
