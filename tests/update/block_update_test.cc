#include "update/block_update.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "common/data/encoding.h"
#include "tests/catch.h"
#include "tests/update/block_fixture.h"

namespace capstan::server {
namespace {

constexpr std::uint32_t kCounts[] = {1, 2, 7, 16, 33, 100, 2048, 2 * 2048 + 17, 5001};

// Returns numbers of very different sizes, so that sums in another order usually round differently.
Floats RaggedFloats(RandomStream* random, std::uint32_t count) {
  Floats floats = RandomFloats(random, count);
  for (std::uint32_t i = 0; i < count; ++i) floats[i] = std::ldexp(floats[i], static_cast<int>(random->Below(24)) - 12);
  return floats;
}

// Makes one contribution per slot. About a third of the slots have no samples, but never all.
std::vector<Contribution> RandomLeaves(RandomStream* random, SlotIndex slots, std::uint32_t count) {
  std::vector<Contribution> leaves;
  const SlotIndex never_empty = static_cast<SlotIndex>(random->Below(slots));
  for (SlotIndex slot = 0; slot < slots; ++slot) {
    const bool empty = slot != never_empty && random->Below(3) == 0;
    leaves.emplace_back(Node{slot, slot + 1}, empty ? 0 : 1 + random->Below(100), RaggedFloats(random, count));
  }
  return leaves;
}

// Computes element `i` of the tree's sum by its definition: left + right; a side without samples is left out.
std::optional<float> TreeSum(Node node, const std::vector<Contribution>& leaves, std::size_t i) {
  if (node.IsLeaf()) {
    const Contribution& leaf = leaves[node.begin];
    if (leaf.samples() == 0) return std::nullopt;
    return leaf.value(i) * static_cast<float>(leaf.samples());
  }
  const SlotIndex split = SplitPoint(node);
  const std::optional<float> left = TreeSum({node.begin, split}, leaves, i);
  const std::optional<float> right = TreeSum({split, node.end}, leaves, i);
  if (left && right) return *left + *right;
  return left ? left : right;
}

Floats TreeSum(SlotIndex slots, const std::vector<Contribution>& leaves, std::size_t count) {
  Floats sum(count);
  for (std::size_t i = 0; i < count; ++i) sum[i] = TreeSum({0, slots}, leaves, i).value();
  return sum;
}

// Adds some pairs of sibling nodes in advance, as workers and shards do. The returned nodes cover the same slots as
// `node`.
std::vector<Contribution> MergeAtRandom(RandomStream* random, Node node, const std::vector<Contribution>& leaves,
                                        std::uint32_t count) {
  if (node.IsLeaf()) return {leaves[node.begin]};
  const SlotIndex split = SplitPoint(node);
  std::vector<Contribution> left = MergeAtRandom(random, {node.begin, split}, leaves, count);
  const std::vector<Contribution> right = MergeAtRandom(random, {split, node.end}, leaves, count);
  if (left.size() == 1 && right.size() == 1 && random->Below(2) == 0) {
    Floats sum(count);
    AddNodes(left[0].input(), right[0].input(), count, sum.data());
    return {Contribution(node, left[0].samples() + right[0].samples(), sum)};
  }
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// Computes the sum of squares by its definition: each element of the segment goes to one of 16 lanes, and the lanes are
// folded in halves.
double LaneSquares(const Floats& sum, const SegmentRange& segment, float mean_scale) {
  double lanes[16] = {};
  for (std::uint32_t i = 0; i < segment.count; ++i) {
    const double mean = static_cast<double>(sum[segment.offset + i] * mean_scale);
    lanes[i % 16] += mean * mean;
  }
  for (int half : {8, 4, 2, 1}) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

struct Case {
  RandomStream random{0};
  GroupRule group;
  std::uint32_t count = 0;
  UpdateScalars scalars{.step = 3, .mean_scale = 1.0F / 37};
  std::vector<SegmentRange> segments;
  std::vector<Contribution> leaves;
  BlockArrays before{0, 0};

  Case(std::uint64_t seed, const OptimizerRule& a_rule, SlotIndex slots, std::uint32_t a_count)
      : random(seed), group{a_rule, 0.01}, count(a_count), segments(TwoSegments(a_count)) {
    leaves = RandomLeaves(&random, slots, count);
    before = RandomBlock(&random, count, segments.size());
  }

  BlockArrays Updated(const std::vector<Contribution>& cover, WritePath path = WritePath::kCached) const {
    BlockArrays after = before;
    ReduceAndUpdate({&group, 1}, scalars, Inputs(cover), ReductionTree(static_cast<SlotIndex>(leaves.size())), segments,
                    before.in(), after.out(path), after.squares);
    return after;
  }
};

TEST_CASE("the bits of an update do not depend on which nodes were added before", "[server][update]") {
  std::uint64_t seed = 0;
  for (SlotIndex slots = 1; slots <= 9; ++slots) {
    for (std::uint32_t count : kCounts) {
      ++seed;
      const Case c(seed, AllRules()[seed % AllRules().size()], slots, count);
      const BlockArrays direct = c.Updated(c.leaves);
      CAPTURE(slots, count);
      REQUIRE(direct.sum == TreeSum(slots, c.leaves, count));
      RandomStream random(seed, 1);
      for (int i = 0; i < 4; ++i) {
        const BlockArrays merged = c.Updated(MergeAtRandom(&random, {0, slots}, c.leaves, count));
        REQUIRE(merged.sum == direct.sum);
        REQUIRE(merged.SameVersion(direct));
        REQUIRE(merged.squares == direct.squares);
      }
    }
  }
}

TEST_CASE("sums of squares are folded from 16 lanes counted from the start of the segment", "[server][update]") {
  for (SlotIndex slots : {1U, 2U, 5U}) {
    for (std::uint32_t count : kCounts) {
      const Case c(slots * 10000 + count, AllRules()[0], slots, count);
      const BlockArrays after = c.Updated(c.leaves);
      CAPTURE(slots, count);
      for (std::size_t s = 0; s < c.segments.size(); ++s) {
        REQUIRE(after.squares[s] == LaneSquares(after.sum, c.segments[s], c.scalars.mean_scale));
      }
    }
  }
}

TEST_CASE("a segment has the same bits wherever it lies in its block", "[server][update]") {
  constexpr std::uint32_t kCount = 2500;
  for (std::uint32_t shift : {1U, 5U, 8U, 64U}) {
    const Case c(shift, AllRules()[6], 3, kCount);
    const SegmentRange whole{0, kCount - 64, true}, moved{shift, kCount - 64, true};
    BlockArrays here = c.before, there = c.before;
    std::vector<Contribution> shifted;
    for (const Contribution& leaf : c.leaves) {
      Floats values(kCount);
      for (std::uint32_t i = 0; i < whole.count; ++i) values[i + shift] = leaf.value(i);
      shifted.emplace_back(leaf.node(), leaf.samples(), values);
    }
    for (std::uint32_t i = 0; i < whole.count; ++i) {
      there.weights[i + shift] = c.before.weights[i];
      there.state[0][i + shift] = c.before.state[0][i];
      there.state[1][i + shift] = c.before.state[1][i];
    }
    double here_squares = 0, there_squares = 1;
    ReduceAndUpdate({&c.group, 1}, c.scalars, Inputs(c.leaves), ReductionTree(3), {&whole, 1}, here.in(), here.out(),
                    {&here_squares, 1});
    ReduceAndUpdate({&c.group, 1}, c.scalars, Inputs(shifted), ReductionTree(3), {&moved, 1}, there.in(),
                    there.out(WritePath::kStreaming), {&there_squares, 1});
    REQUIRE(here_squares == there_squares);
    REQUIRE(std::memcmp(here.weights.data(), there.weights.data() + shift, whole.count * sizeof(float)) == 0);
  }
}

TEST_CASE("an update from the kept sum has the bits of one that was clipped at once", "[server][update]") {
  for (const OptimizerRule& rule : AllRules()) {
    for (SlotIndex slots : {1U, 2U, 6U}) {
      Case c(slots, rule, slots, 3001);
      const BlockArrays unclipped = c.Updated(c.leaves);
      c.scalars.clip = 0.37F;
      const BlockArrays clipped = c.Updated(c.leaves);
      REQUIRE_FALSE(clipped.SameVersion(unclipped));
      REQUIRE(clipped.squares == unclipped.squares);  // of the gradient before clipping
      BlockArrays again = unclipped;
      UpdateFromSum({&c.group, 1}, c.scalars, unclipped.sum.data(), c.segments, c.before.in(), again.out());
      REQUIRE(again.SameVersion(clipped));
      REQUIRE(again.sum == unclipped.sum);
    }
  }
}

// One update of segments of two groups is compared with two updates, each of the segments of one group.
TEST_CASE("segments of two groups have the bits of two updates, each with its own hyper-parameters",
          "[server][update]") {
  const HyperParameters first{0.01, 0.9, 0.9, 0.999, 1e-8, 0.1, false, 0.1, 0.9, 0.1, 0.5, 4e-3, true, false};
  const HyperParameters second{0.3, 0.5, 0.8, 0.95, 1e-6, 0.02, true, 0.0, 0.5, 0.0, 0.0, 1e-2, false, true};
  for (const OptimizerRule& rule : AllRules()) {
    for (SlotIndex slots : {1U, 2U, 5U}) {
      Case c(slots, rule, slots, 3001);
      c.scalars.clip = 0.5F;
      c.segments = {{0, 1000, true, 1}, {1000, 1001, false, 0}, {2001, 1000, true, 0}};
      c.before = RandomBlock(&c.random, c.count, c.segments.size());
      const auto updated = [&](const std::vector<HyperParameters>& hyper, std::vector<SegmentRange> segments) {
        BlockArrays after = c.before;
        after.squares.resize(segments.size());
        ReduceAndUpdate(MakeGroupRules(rule, 7.0F, hyper), c.scalars, Inputs(c.leaves), ReductionTree(slots), segments,
                        c.before.in(), after.out(), after.squares);
        return after;
      };
      const BlockArrays both = updated({first, second}, c.segments);
      BlockArrays apart = updated({second}, {{0, 1000, true, 0}});
      const BlockArrays rest = updated({first}, {{1000, 1001, false, 0}, {2001, 1000, true, 0}});
      const auto take = [](const Floats& to, const Floats& from) {
        std::copy(from.data() + 1000, from.data() + from.size(), to.data() + 1000);
      };
      take(apart.weights, rest.weights);
      for (int s = 0; s < kStatesMax; ++s) take(apart.state[s], rest.state[s]);
      CAPTURE(static_cast<int>(rule.kind), slots);
      REQUIRE(both.SameVersion(apart));
      REQUIRE_FALSE(both.SameVersion(updated({second, first}, c.segments)));
      REQUIRE(both.squares == std::vector<double>{apart.squares[0], rest.squares[0], rest.squares[1]});

      BlockArrays again = both;
      UpdateFromSum(MakeGroupRules(rule, 7.0F, {first, second}), c.scalars, both.sum.data(), c.segments, c.before.in(),
                    again.out());
      REQUIRE(again.SameVersion(both));
    }
  }
}

TEST_CASE("a clip factor of one or more changes nothing", "[server][update]") {
  Case c(1, AllRules()[2], 2, 100);
  const BlockArrays plain = c.Updated(c.leaves);
  for (float clip : {1.0F, 1.5F, std::numeric_limits<float>::infinity()}) {
    c.scalars.clip = clip;
    REQUIRE(c.Updated(c.leaves).SameVersion(plain));
  }
}

TEST_CASE("a limit of each element's magnitude has the bits of an update with clamped gradients", "[server][update]") {
  for (const OptimizerRule& rule : AllRules()) {
    Case c(4, rule, 1, 1003);
    c.scalars.clip_value = 0.25F;
    const Contribution& leaf = c.leaves.front();
    Floats clamped(c.count);
    std::size_t limited = 0;
    for (std::size_t i = 0; i < c.count; ++i) {
      const float sum = leaf.value(i) * static_cast<float>(leaf.samples());
      const float mean = sum * c.scalars.mean_scale;
      clamped[i] = std::clamp(mean, -0.25F, 0.25F);
      limited += clamped[i] != mean ? 1 : 0;
    }
    REQUIRE(limited > 100);
    REQUIRE(limited < 1003);
    const BlockArrays limited_by_update = c.Updated(c.leaves);
    c.scalars.clip_value = 0.0F;
    c.scalars.mean_scale = 1.0F;
    const BlockArrays expected = c.Updated({Contribution({0, 1}, 1, clamped)});
    CAPTURE(static_cast<int>(rule.kind));
    CHECK(limited_by_update.SameVersion(expected));
    CHECK(limited_by_update.squares != expected.squares);  // the norm is that of the unclipped gradient
  }
}

TEST_CASE("an update in place has the bits of one into other buffers", "[server][update]") {
  for (const OptimizerRule& rule : AllRules()) {
    for (SlotIndex slots : {1U, 2U, 3U}) {
      for (WritePath path : {WritePath::kCached, WritePath::kStreaming}) {
        const Case c(slots, rule, slots, 4099);
        const BlockArrays elsewhere = c.Updated(c.leaves);
        BlockArrays in_place = c.before;
        BlockOut out = in_place.out(path);
        out.sum = nullptr;
        ReduceAndUpdate({&c.group, 1}, c.scalars, Inputs(c.leaves), ReductionTree(slots), c.segments, in_place.in(),
                        out, in_place.squares);
        REQUIRE(in_place.SameVersion(elsewhere));
        REQUIRE(in_place.squares == elsewhere.squares);
      }
    }
  }
}

TEST_CASE("streaming writes change no bit", "[server][update]") {
  for (const OptimizerRule& rule : AllRules()) {
    for (SlotIndex slots : {1U, 2U, 4U}) {
      const Case c(slots, rule, slots, 3 * 4096 + 5);
      const BlockArrays cached = c.Updated(c.leaves), streamed = c.Updated(c.leaves, WritePath::kStreaming);
      REQUIRE(streamed.SameVersion(cached));
      REQUIRE(streamed.sum == cached.sum);
      REQUIRE(streamed.squares == cached.squares);
    }
  }
  REQUIRE(WritePathFor(1 << 20) == WritePath::kCached);
  REQUIRE(WritePathFor(std::uint64_t{1} << 30) == WritePath::kStreaming);
}

TEST_CASE("the pass hashes what workers pull, and makes its 16-bit numbers", "[server][update]") {
  for (const Encoding encoding : {Encoding::kFp32, Encoding::kBf16, Encoding::kFp16}) {
    for (const SlotIndex slots : {1U, 2U, 4U}) {
      for (const WritePath path : {WritePath::kCached, WritePath::kStreaming}) {
        const Case c(slots, AllRules()[6], slots, 3 * 4096 + 5);
        const BlockArrays expected = c.Updated(c.leaves, path);
        const std::size_t count = expected.weights.size();
        std::vector<std::byte> pulled(count * BytesPerNumber(encoding)), narrow(pulled.size());
        Encode(encoding, {expected.weights.data(), count}, pulled.data());

        BlockArrays made = c.before;
        std::vector<double> squares(c.segments.size());
        const BlockArrays before = c.before;
        Hasher hasher;
        BlockOut out = made.out(path);
        out.to_send = {.hasher = &hasher, .encoding = encoding, .narrow = narrow.data()};
        ReduceAndUpdate({&c.group, 1}, c.scalars, Inputs(c.leaves), ReductionTree(slots), c.segments, before.in(), out,
                        squares);
        REQUIRE(made.SameVersion(expected));
        REQUIRE(hasher.Digest() == Hash64(pulled));
        if (encoding != Encoding::kFp32) REQUIRE(narrow == pulled);

        Hasher again;
        out.to_send.hasher = &again;
        std::fill_n(out.weights, count, 0.0F);
        UpdateFromSum({&c.group, 1}, c.scalars, expected.sum.data(), c.segments, before.in(), out);
        REQUIRE(again.Digest() == Hash64(pulled));
        REQUIRE(made.SameVersion(expected));
      }
    }
  }
}

TEST_CASE("a slot without samples leaves the others' bits alone", "[server][update]") {
  RandomStream random(5);
  constexpr std::uint32_t kCount = 77;
  const Case c(5, AllRules()[4], 1, kCount);
  Contribution alone({0, 1}, 9, RandomFloats(&random, kCount));
  Floats values(kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) values[i] = alone.value(i);
  std::vector<Contribution> among{{{0, 1}, 0, values}, {{1, 2}, 9, values}, {{2, 4}, 0, values}};
  BlockArrays after = c.before;
  ReduceAndUpdate({&c.group, 1}, c.scalars, Inputs(among), ReductionTree(4), c.segments, c.before.in(), after.out(),
                  after.squares);
  REQUIRE(after.SameVersion(c.Updated({alone})));

  Floats sum(kCount, 42.0F);
  AddNodes(among[0].input(), among[1].input(), kCount, sum.data());
  for (std::uint32_t i = 0; i < kCount; ++i) REQUIRE(sum[i] == values[i] * 9.0F);
  Floats untouched(kCount, 42.0F);
  AddNodes(among[0].input(), among[2].input(), kCount, untouched.data());
  REQUIRE(untouched == Floats(kCount, 42.0F));
}

TEST_CASE("a sum of siblings may be written over one of them", "[server][update]") {
  RandomStream random(6);
  const Floats left = RandomFloats(&random, 100), right = RandomFloats(&random, 100);
  const auto input = [](Node node, std::uint64_t samples, const Floats& f) {
    return StagedInput{node, samples, reinterpret_cast<const std::byte*>(f.data())};
  };
  Floats sum(100), over_left = left, over_right = right;
  AddNodes(input({0, 2}, 5, left), input({2, 3}, 7, right), 100, sum.data());
  AddNodes(input({0, 2}, 5, over_left), input({2, 3}, 7, right), 100, over_left.data());
  AddNodes(input({0, 2}, 5, left), input({2, 3}, 7, over_right), 100, over_right.data());
  REQUIRE(over_left == sum);
  REQUIRE(over_right == sum);
  REQUIRE(sum[3] == left[3] + right[3] * 7.0F);
}

TEST_CASE("a gradient that is not finite shows in its segment's squares only", "[server][update]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 3e38F}) {  // 3e38 overflows by * n
    for (std::uint32_t at : {0U, 15U, 70U, 99U}) {
      for (SlotIndex slots : {1U, 2U, 3U}) {
        Case c(at, AllRules()[6], slots, 200);
        for (Contribution& leaf : c.leaves) {
          Floats values(200, 0.5F);
          values[at] = bad;
          leaf = Contribution(leaf.node(), 4, values);
        }
        const BlockArrays after = c.Updated(c.leaves);
        CAPTURE(bad, at, slots);
        REQUIRE_FALSE(std::isfinite(after.squares[0]));
        REQUIRE(std::isfinite(after.squares[1]));
      }
    }
  }
}

TEST_CASE("leaves of 16-bit numbers have the bits of the same values in fp32", "[server][update]") {
  for (const Encoding encoding : {Encoding::kBf16, Encoding::kFp16}) {
    for (const SlotIndex slots : {1U, 2U, 3U, 5U}) {
      for (const std::uint32_t count : {1U, 15U, 33U, 5000U}) {
        CAPTURE(NameOf(encoding), slots, count);
        Case c(count, AllRules()[6], slots, count);
        std::vector<Contribution> wide;
        std::vector<std::vector<std::byte>> narrow;
        std::vector<StagedInput> inputs;
        for (const Contribution& leaf : c.leaves) {
          Floats values(count);
          for (std::uint32_t i = 0; i < count; ++i) values[i] = leaf.value(i);
          RoundTo(encoding, {values.data(), count});
          wide.emplace_back(leaf.node(), leaf.samples(), values);
          narrow.emplace_back(count * BytesPerNumber(encoding) + 1);
          Encode(encoding, {values.data(), count}, narrow.back().data() + 1);
          inputs.push_back({leaf.node(), leaf.samples(), narrow.back().data() + 1, encoding});
        }
        const BlockArrays expected = c.Updated(wide);
        BlockArrays after = c.before;
        ReduceAndUpdate({&c.group, 1}, c.scalars, inputs, ReductionTree(slots), c.segments, c.before.in(), after.out(),
                        after.squares);
        REQUIRE(after.SameVersion(expected));
        REQUIRE(after.sum == expected.sum);
        REQUIRE(after.squares == expected.squares);
        if (slots < 2) continue;
        Floats sum(count, 42.0F), expected_sum(count, 43.0F);
        AddNodes(wide[0].input(), wide[1].input(), count, expected_sum.data());
        AddNodes(inputs[0], inputs[1], count, sum.data());
        REQUIRE(sum == expected_sum);
        AddNodes(inputs[0], wide[1].input(), count, sum.data());
        REQUIRE(sum == expected_sum);
      }
    }
  }
}

// A node whose values may change: its bytes in the encoding, and the check of what is read.
struct Lent {
  Lent(const Contribution& leaf, std::uint32_t count, Encoding encoding)
      : bytes(count * BytesPerNumber(encoding) + 1),
        input{leaf.node(), leaf.samples(), bytes.data() + 1, encoding, &check} {
    Floats values(count);
    for (std::uint32_t i = 0; i < count; ++i) values[i] = leaf.value(i);
    Encode(encoding, {values.data(), count}, bytes.data() + 1);
    check.wanted = Hash64(std::span(bytes).subspan(1));
  }
  std::vector<std::byte> bytes;
  CheckedRead check;
  StagedInput input;
};

TEST_CASE("values that may change have the bits of values that do not, or their check fails", "[server][update]") {
  std::size_t rule = 0;
  for (const Encoding encoding : {Encoding::kFp32, Encoding::kBf16, Encoding::kFp16}) {
    for (const SlotIndex slots : {1U, 2U}) {
      for (const std::uint32_t count : {1U, 15U, 33U, 1024U, 5000U}) {
        for (SlotIndex lent_slot = 0; lent_slot < slots; ++lent_slot) {
          CAPTURE(NameOf(encoding), slots, count, lent_slot);
          Case c(count, AllRules()[++rule % AllRules().size()], slots, count);
          Floats values(count, 0.25F);  // some random leaves have no samples
          if (c.leaves[lent_slot].samples() == 0)
            c.leaves[lent_slot] = Contribution(c.leaves[lent_slot].node(), 2, values);
          std::vector<StagedInput> inputs = Inputs(c.leaves);
          Lent lent(c.leaves[lent_slot], count, encoding);
          inputs[lent_slot] = lent.input;
          REQUIRE(TakesChecks(inputs, Aggregation::kMean));
          WritePath path = WritePath::kCached;
          const auto update = [&] {
            BlockArrays after = c.before;
            ReduceAndUpdate({&c.group, 1}, c.scalars, inputs, ReductionTree(slots), c.segments, c.before.in(),
                            after.out(path), after.squares);
            return after;
          };
          const BlockArrays after = update();
          REQUIRE(lent.check.passed());
          inputs[lent_slot].check = nullptr;
          const BlockArrays expected = update();
          REQUIRE(after.SameVersion(expected));
          REQUIRE(after.sum == expected.sum);
          REQUIRE(after.squares == expected.squares);
          Lent streamed(c.leaves[lent_slot], count, encoding);
          inputs[lent_slot] = streamed.input;
          path = WritePath::kStreaming;
          REQUIRE(update().SameVersion(expected));
          REQUIRE(streamed.check.passed());
          for (const std::size_t at : {std::size_t{1}, lent.bytes.size() / 2, lent.bytes.size() - 1}) {
            Lent changed(c.leaves[lent_slot], count, encoding);
            changed.bytes[at] ^= std::byte{1};
            inputs[lent_slot] = changed.input;
            (void)update();
            REQUIRE_FALSE(changed.check.passed());
          }
        }
      }
    }
  }
}

// Results are written over values further on, so values that were read again after their copy was made would show.
TEST_CASE("values that may change are used as they were copied", "[server][update]") {
  constexpr std::uint32_t kCount = 1000, kBehind = 16;
  for (const OptimizerRule& rule : AllRules()) {
    for (const Encoding encoding : {Encoding::kFp32, Encoding::kBf16}) {
      CAPTURE(static_cast<int>(rule.kind), NameOf(encoding));
      Case c(7, rule, 1, kCount);
      c.segments.resize(1);
      c.segments[0].count = kCount;
      const Lent lent(Contribution({0, 1}, 3, RandomFloats(&c.random, kCount)), kCount, encoding);
      const auto update = [&](const std::byte* values, float* weights, CheckedRead* check) {
        BlockArrays after = c.before;
        BlockOut out = after.out();
        out.weights = weights;
        const StagedInput input{{0, 1}, 3, values, encoding, check};
        ReduceAndUpdate({&c.group, 1}, c.scalars, {&input, 1}, ReductionTree(1), c.segments, c.before.in(), out,
                        std::span(after.squares).first(1));
      };
      Floats expected(kCount), over(kCount + kBehind);
      update(lent.input.values, expected.data(), nullptr);
      std::memcpy(over.data(), lent.input.values, lent.bytes.size() - 1);
      CheckedRead check{lent.check.wanted, {}};
      update(reinterpret_cast<const std::byte*>(over.data()), over.data() + kBehind, &check);
      REQUIRE(check.passed());
      REQUIRE(std::memcmp(over.data() + kBehind, expected.data(), kCount * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("checks are for a mean of at most two nodes", "[server][update]") {
  const Case c(1, AllRules()[6], 3, 20);
  const std::vector<StagedInput> three = Inputs(c.leaves), two(three.begin(), three.begin() + 2);
  CHECK(TakesChecks(two, Aggregation::kMean));
  CHECK(TakesChecks(two, Aggregation::kNone));
  CHECK_FALSE(TakesChecks(two, Aggregation::kMedian));
  CHECK_FALSE(TakesChecks(three, Aggregation::kMean));
  std::vector<StagedInput> empty = three;
  empty[1].samples = 0;
  CHECK(TakesChecks(empty, Aggregation::kMean));
}

TEST_CASE("a statistic moves a tenth of the way to what was observed, and nothing else touches it",
          "[server][update]") {
  for (const OptimizerRule& rule : AllRules()) {
    for (const SlotIndex slots : {1U, 2U, 3U}) {
      constexpr std::uint32_t kCount = 70;
      Case c(11, rule, slots, kCount);
      for (SegmentRange& segment : c.segments) segment.kind = TensorKind::kStatistic;
      std::uint64_t samples = 0;
      for (const Contribution& leaf : c.leaves) samples += leaf.samples();
      c.scalars.mean_scale = 1e-6F;  // as with a loss scale; and with clipping
      c.scalars.clip = 0.01F;
      c.scalars.statistic_scale = static_cast<float>(1.0 / static_cast<double>(samples));
      const BlockArrays after = c.Updated(c.leaves);
      for (std::uint32_t i = 0; i < kCount; ++i) {
        double observed = 0;
        for (const Contribution& leaf : c.leaves) {
          observed += static_cast<double>(leaf.value(i)) * static_cast<double>(leaf.samples());
        }
        observed /= static_cast<double>(samples);
        const double before = static_cast<double>(c.before.weights[i]);
        REQUIRE(static_cast<double>(after.weights[i]) == Approx(before + 0.1 * (observed - before)).margin(1e-6));
      }
      for (int s = 0; s < StateCount(rule); ++s) REQUIRE(after.state[s] == c.before.state[s]);
      for (const double squares : after.squares) REQUIRE(squares == 0.0);
      BlockArrays again = c.before;
      UpdateFromSum({&c.group, 1}, c.scalars, after.sum.data(), c.segments, c.before.in(), again.out());
      REQUIRE(again.weights == after.weights);
    }
  }
}

TEST_CASE("a statistic that is not finite shows in its segment's squares", "[server][update]") {
  Case c(12, AllRules()[6], 2, 40);
  for (SegmentRange& segment : c.segments) segment.kind = TensorKind::kStatistic;
  Floats values(40, 1.0F);
  values[39] = std::numeric_limits<float>::infinity();
  c.leaves.front() = Contribution(c.leaves.front().node(), 4, values);
  const BlockArrays after = c.Updated(c.leaves);
  REQUIRE(after.squares[0] == 0.0);
  REQUIRE_FALSE(std::isfinite(after.squares[1]));
}

}  // namespace
}  // namespace capstan::server
