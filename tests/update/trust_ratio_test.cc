// Updates by lars and lamb: the sums of squares that they report for a segment, and the effect of a tensor's trust
// ratio.
#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/update/block_fixture.h"
#include "update/block_update.h"

namespace capstan::server {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::uint32_t kSizes[] = {1, 2, 15, 17, 31, 33, 257, 2048, 4099};
constexpr double kRate = 0.02;

std::vector<OptimizerRule> TrustRules() {
  return {{.kind = OptimizerKind::kLars, .momentum = 0.9, .weight_decay = 0.1},
          {.kind = OptimizerKind::kLars, .momentum = 0.0},
          {.kind = OptimizerKind::kLamb, .eps = 1e-6, .weight_decay = 0.1},
          {.kind = OptimizerKind::kLamb, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3}};
}

// Computes the formulas of the papers on lars and lamb for one weight, in double.
struct RatioReference {
  double w = 0, first = 0, second = 0, direction = 0;

  void Step(const OptimizerRule& rule, double decay, double ratio, double g, std::uint64_t step) {
    const double t = static_cast<double>(step);
    if (rule.kind == OptimizerKind::kLars) {
      direction = g + decay * w;
      first = rule.momentum * first + kRate * ratio * direction;
      w -= first;
    } else {
      first = rule.beta1 * first + (1 - rule.beta1) * g;
      second = rule.beta2 * second + (1 - rule.beta2) * g * g;
      const double m = first / (1 - std::pow(rule.beta1, t)), v = second / (1 - std::pow(rule.beta2, t));
      direction = m / (std::sqrt(v) + rule.eps) + decay * w;
      w -= kRate * ratio * direction;
    }
  }
};

// One block of up to two tensors. Before each update the arrays that it writes are filled with NaN.
struct Trusted {
  GroupRule group;
  std::vector<SegmentRange> segments;
  BlockArrays now;
  std::vector<double> weights, direction;

  Trusted(const OptimizerRule& rule, std::uint32_t count, RandomStream* random)
      : group{rule, kRate}, segments(TwoSegments(count)), now(RandomBlock(random, count, segments.size())) {
    for (std::uint32_t i = 0; i < segments.size(); ++i) segments[i].tensor = i;
    weights.resize(segments.size());
    direction.resize(segments.size());
  }

  BlockArrays Poisoned() {
    BlockArrays after(now.weights.size(), segments.size());
    for (Floats* floats : {&after.weights, &after.state[0], &after.state[1], &after.sum}) {
      *floats = Floats(now.weights.size(), kNaN);
    }
    for (std::vector<double>* sums : {&after.squares, &weights, &direction}) sums->assign(segments.size(), NAN);
    return after;
  }
  BlockArrays Updated(const std::vector<Contribution>& leaves, const UpdateScalars& scalars,
                      WritePath path = WritePath::kCached) {
    BlockArrays after = Poisoned();
    ReduceAndUpdate({&group, 1}, scalars, Inputs(leaves), ReductionTree(static_cast<SlotIndex>(leaves.size())),
                    segments, now.in(), after.out(path), after.squares, {weights, direction});
    return after;
  }
  BlockArrays Again(const Floats& sum, const UpdateScalars& scalars) {
    BlockArrays after = Poisoned();
    UpdateFromSum({&group, 1}, scalars, sum.data(), segments, now.in(), after.out(), {weights, direction});
    return after;
  }
};

std::vector<Contribution> Leaves(RandomStream* random, SlotIndex slots, std::uint32_t count) {
  std::vector<Contribution> leaves;
  for (SlotIndex slot = 0; slot < slots; ++slot) {
    leaves.emplace_back(Node{slot, slot + 1}, 1 + slot, RandomFloats(random, count));
  }
  return leaves;
}

double MeanOf(const std::vector<Contribution>& leaves, std::size_t i) {
  double sum = 0, samples = 0;
  for (const Contribution& leaf : leaves) {
    sum += static_cast<double>(leaf.samples()) * static_cast<double>(leaf.value(i));
    samples += static_cast<double>(leaf.samples());
  }
  return sum / samples;
}

float MeanScale(const std::vector<Contribution>& leaves) {
  std::uint64_t samples = 0;
  for (const Contribution& leaf : leaves) samples += leaf.samples();
  return static_cast<float>(1.0 / static_cast<double>(samples));
}

// Computes a sum of squares: each element of the segment goes to one of 16 lanes, and the lanes are folded in halves.
double SquaresOfLanes(const Floats& floats, const SegmentRange& segment) {
  double lanes[16] = {};
  for (std::uint32_t i = 0; i < segment.count; ++i) {
    const double value = static_cast<double>(floats[segment.offset + i]);
    lanes[i % 16] += value * value;
  }
  for (int half : {8, 4, 2, 1}) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

TEST_CASE("lars and lamb follow their papers in double, each tensor by its own ratio", "[server][trust]") {
  const float ratios[] = {0.25F, 3.0F};
  for (const OptimizerRule& rule : TrustRules()) {
    for (std::uint32_t count : kSizes) {
      RandomStream random(count);
      Trusted block(rule, count, &random);
      for (Floats& state : block.now.state) state = Floats(count, 0.0F);
      std::vector<RatioReference> references(count);
      for (std::uint32_t i = 0; i < count; ++i) references[i].w = static_cast<double>(block.now.weights[i]);
      for (std::uint64_t t = 1; t <= 10; ++t) {
        const std::vector<Contribution> leaves = Leaves(&random, 2, count);
        block.now =
            block.Updated(leaves, {.step = t, .mean_scale = MeanScale(leaves), .clip = 0.5F, .trust_ratios = ratios});
        for (std::uint32_t s = 0; s < block.segments.size(); ++s) {
          const SegmentRange& segment = block.segments[s];
          double squares = 0, weight_squares = 0;
          for (std::uint32_t i = segment.offset; i < segment.offset + segment.count; ++i) {
            const double before = references[i].w, ratio = static_cast<double>(ratios[s]);
            references[i].Step(rule, segment.decay ? rule.weight_decay : 0.0, ratio, 0.5 * MeanOf(leaves, i), t);
            squares += references[i].direction * references[i].direction;
            weight_squares += before * before;
            CAPTURE(static_cast<int>(rule.kind), rule.weight_decay, count, t, i);
            REQUIRE(static_cast<double>(block.now.weights[i]) == Approx(references[i].w).epsilon(1e-5).margin(1e-5));
          }
          REQUIRE(block.weights[s] == Approx(weight_squares).epsilon(1e-5).margin(1e-8));
          REQUIRE(block.direction[s] == Approx(squares).epsilon(1e-4).margin(1e-6));
        }
      }
    }
  }
}

TEST_CASE("squares of weights and directions have the same bits from any number of inputs, from the sum, and streamed",
          "[server][trust]") {
  for (const OptimizerRule& rule : TrustRules()) {
    for (std::uint32_t count : kSizes) {
      for (SlotIndex slots : {1U, 2U, 5U}) {
        RandomStream random(count * 10 + slots);
        Trusted block(rule, count, &random);
        const std::vector<Contribution> leaves = Leaves(&random, slots, count);
        const UpdateScalars scalars{.step = 4, .mean_scale = MeanScale(leaves), .clip = 0.5F};
        const BlockArrays after = block.Updated(leaves, scalars);
        const std::vector<double> weights = block.weights, direction = block.direction;
        CAPTURE(static_cast<int>(rule.kind), count, slots);
        for (std::size_t s = 0; s < block.segments.size(); ++s) {
          REQUIRE(weights[s] == SquaresOfLanes(block.now.weights, block.segments[s]));
          REQUIRE(direction[s] > 0);
        }
        REQUIRE(block.Updated(leaves, scalars, WritePath::kStreaming).SameVersion(after));
        REQUIRE(block.direction == direction);
        REQUIRE(block.Again(after.sum, scalars).SameVersion(after));
        REQUIRE(block.weights == weights);
        REQUIRE(block.direction == direction);
      }
    }
  }
}

TEST_CASE("a direction's squares follow from the clip factor, and not from a ratio", "[server][trust]") {
  const float ratios[] = {0.25F, 3.0F};
  for (const OptimizerRule& rule : TrustRules()) {
    RandomStream random(7);
    Trusted block(rule, 257, &random);
    const std::vector<Contribution> leaves = Leaves(&random, 3, 257);
    UpdateScalars scalars{.step = 4, .mean_scale = MeanScale(leaves)};
    const BlockArrays plain = block.Updated(leaves, scalars);
    const std::vector<double> direction = block.direction;
    scalars.trust_ratios = ratios;
    const BlockArrays scaled = block.Again(plain.sum, scalars);
    REQUIRE_FALSE(scaled.SameVersion(plain));
    REQUIRE(block.direction == direction);
    scalars.clip = 0.5F;
    block.Again(plain.sum, scalars);
    REQUIRE(block.direction != direction);
  }
}

TEST_CASE("other optimizers take no ratio and report no squares of weights", "[server][trust]") {
  const float ratios[] = {0.25F, 3.0F};
  RandomStream random(8);
  Trusted block({.kind = OptimizerKind::kAdamW, .weight_decay = 0.1}, 33, &random);
  const std::vector<Contribution> leaves = Leaves(&random, 2, 33);
  const BlockArrays plain = block.Updated(leaves, {.step = 4});
  REQUIRE(block.Updated(leaves, {.step = 4, .trust_ratios = ratios}).SameVersion(plain));
  REQUIRE(std::isnan(block.weights[0]));
  REQUIRE(std::isnan(block.direction[1]));
}

}  // namespace
}  // namespace capstan::server
