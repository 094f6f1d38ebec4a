#include "update/optimizer.h"

#include <cmath>

#include "common/config/job/optimizer_section.h"
#include "tests/catch.h"
#include "tests/update/block_fixture.h"

namespace capstan::server {
namespace {

// Computes torch.optim's single-tensor formulas on one weight, in double. For lars and lamb, which torch.optim lacks,
// it computes the papers' formulas, with all trust ratios 1.
struct Reference {
  double w = 0, first = 0, second = 0;

  void Step(const OptimizerRule& rule, double lr, double decay, double g, int t) {
    if (rule.kind == OptimizerKind::kAdamW || rule.kind == OptimizerKind::kLamb) {
      w *= 1 - lr * decay;
    } else {
      g += decay * w;
    }
    switch (rule.kind) {
      case OptimizerKind::kSgd: w -= lr * g; return;
      case OptimizerKind::kMomentum:
        first = t == 1 ? g : rule.momentum * first + g;
        w -= lr * (rule.nesterov ? g + rule.momentum * first : first);
        return;
      case OptimizerKind::kLars:
        first = rule.momentum * first + lr * g;
        w -= first;
        return;
      case OptimizerKind::kAdam:
      case OptimizerKind::kLamb:
      case OptimizerKind::kAdamW: {
        first = rule.beta1 * first + (1 - rule.beta1) * g;
        second = rule.beta2 * second + (1 - rule.beta2) * g * g;
        const double first_unbiased = first / (1 - std::pow(rule.beta1, t));
        const double second_unbiased = second / (1 - std::pow(rule.beta2, t));
        w -= lr * first_unbiased / (std::sqrt(second_unbiased) + rule.eps);
        return;
      }
      case OptimizerKind::kAdagrad:
        first += g * g;
        w -= lr * g / (std::sqrt(first) + rule.eps);
        return;
    }
  }
};

TEST_CASE("twenty updates follow the formulas in double", "[server][optimizer]") {
  constexpr std::uint32_t kCount = 101;
  constexpr float kRate = 0.01F;
  const std::vector<SegmentRange> segments = TwoSegments(kCount);
  for (const OptimizerRule& rule : AllRules()) {
    RandomStream random(17);
    BlockArrays block(kCount, segments.size());
    block.weights = RandomFloats(&random, kCount);
    std::vector<Reference> references(kCount);
    for (std::uint32_t i = 0; i < kCount; ++i) references[i].w = static_cast<double>(block.weights[i]);
    for (int t = 1; t <= 20; ++t) {
      const Contribution left({0, 1}, 3, RandomFloats(&random, kCount)),
          right({1, 2}, 5, RandomFloats(&random, kCount));
      const std::vector<StagedInput> cover{left.input(), right.input()};
      const UpdateScalars scalars{.step = static_cast<std::uint64_t>(t), .mean_scale = 1.0F / 8, .clip = 0.5F};
      const GroupRule group{rule, static_cast<double>(kRate)};
      ReduceAndUpdate({&group, 1}, scalars, cover, ReductionTree(2), segments, block.in(), block.out(), block.squares);
      for (std::uint32_t i = 0; i < kCount; ++i) {
        const double mean = (3.0 * static_cast<double>(left.value(i)) + 5.0 * static_cast<double>(right.value(i))) / 8;
        const double decay = i < segments[0].count ? rule.weight_decay : 0.0;
        references[i].Step(rule, static_cast<double>(kRate), decay, 0.5 * mean, t);
        CAPTURE(static_cast<int>(rule.kind), rule.nesterov, rule.weight_decay, t, i);
        REQUIRE(static_cast<double>(block.weights[i]) == Approx(references[i].w).epsilon(2e-6).margin(2e-6));
      }
    }
  }
}

TEST_CASE("bias corrections stay exact for late updates", "[server][optimizer]") {
  const GroupRule group{{.kind = OptimizerKind::kAdam}, 1.0};
  const SegmentRange segment{0, 16, true};
  for (std::uint64_t step : {std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{1000}, std::uint64_t{1} << 40}) {
    BlockArrays block(16, 1);
    block.state[1] = Floats(16, 1.0F);
    const Contribution gradient({0, 1}, 1, Floats(16, 1.0F));
    const std::vector<StagedInput> cover{gradient.input()};
    ReduceAndUpdate({&group, 1}, {.step = step}, cover, ReductionTree(1), {&segment, 1}, block.in(), block.out(),
                    block.squares);
    const double t = static_cast<double>(step);
    const double expected = -0.1 / (1 - std::pow(0.9, t)) / (1.0 / std::sqrt(1 - std::pow(0.999, t)) + 1e-8);
    REQUIRE(static_cast<double>(block.weights[5]) == Approx(expected).epsilon(1e-6));
  }
}

TEST_CASE("an optimizer's rule and number of states follow from the job file", "[server][optimizer]") {
  OptimizerSection section;
  section.kind = OptimizerKind::kMomentum;
  section.momentum = 0.8;
  section.nesterov = true;
  section.beta1 = 0.7;
  section.beta2 = 0.6;
  section.eps = 0.5;
  section.weight_decay = 0.4;
  const OptimizerRule rule = MakeOptimizerRule(section);
  REQUIRE(rule.kind == OptimizerKind::kMomentum);
  REQUIRE(rule.momentum == 0.8);
  REQUIRE(rule.nesterov);
  REQUIRE(rule.beta1 == 0.7);
  REQUIRE(rule.beta2 == 0.6);
  REQUIRE(rule.eps == 0.5);
  REQUIRE(rule.weight_decay == 0.4);
  const std::vector<GroupRule> alone = MakeGroupRules(rule, 0.25F, {});
  REQUIRE(alone.size() == 1);
  REQUIRE(alone[0].rule.momentum == 0.8);
  REQUIRE(alone[0].learning_rate == 0.25);
  const std::vector<GroupRule> groups = MakeGroupRules(rule, 0.25F, {{}, {1.0, 2.0, 0.3, 0.4, 5.0, 6.0, false}});
  REQUIRE(groups.size() == 2);
  REQUIRE(groups[1].rule.kind == OptimizerKind::kMomentum);
  REQUIRE(groups[1].learning_rate == 1.0);
  REQUIRE(groups[1].rule.momentum == 2.0);
  REQUIRE(groups[1].rule.beta1 == 0.3);
  REQUIRE(groups[1].rule.beta2 == 0.4);
  REQUIRE(groups[1].rule.eps == 5.0);
  REQUIRE(groups[1].rule.weight_decay == 6.0);
  REQUIRE_FALSE(groups[1].rule.nesterov);
  REQUIRE(StateCount(OptimizerKind::kSgd) == 0);
  REQUIRE(StateCount(OptimizerKind::kMomentum) == 1);
  REQUIRE(StateCount(OptimizerKind::kAdam) == 2);
  REQUIRE(StateCount(OptimizerKind::kAdamW) == 2);
  REQUIRE(StateCount(OptimizerKind::kAdagrad) == 1);
  REQUIRE(StateCount(OptimizerKind::kLars) == 1);
  REQUIRE(StateCount(OptimizerKind::kLamb) == 2);
}

}  // namespace
}  // namespace capstan::server
