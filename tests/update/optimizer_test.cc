#include "update/optimizer.h"

#include <algorithm>
#include <cmath>

#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/update/block_fixture.h"
#include "update/scalar_math.h"

namespace capstan::server {
namespace {

// Computes torch.optim's single-tensor formulas on one weight, in double. For lion, lars and lamb, which torch.optim
// lacks, it computes the papers' formulas, with all trust ratios 1.
struct Reference {
  double w = 0, first = 0, second = 0, third = 0, momenta = 1;

  void Step(const OptimizerRule& rule, double lr, double decay, double g, int t) {
    if (rule.maximize) g = -g;
    const bool decoupled = rule.kind == OptimizerKind::kAdamW || rule.kind == OptimizerKind::kLamb ||
                           rule.kind == OptimizerKind::kLion || rule.decoupled_weight_decay;
    if (decoupled) {
      w *= 1 - lr * decay;
    } else {
      g += decay * w;
    }
    switch (rule.kind) {
      case OptimizerKind::kSgd: w -= lr * g; return;
      case OptimizerKind::kExternal: w = g; return;  // the mean gradient itself
      case OptimizerKind::kMomentum:
        first = t == 1 ? g : rule.momentum * first + (1 - rule.dampening) * g;
        w -= lr * (rule.nesterov ? g + rule.momentum * first : first);
        return;
      case OptimizerKind::kLion: {
        const double direction = rule.beta1 * first + (1 - rule.beta1) * g;
        w -= lr * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
        first = rule.beta2 * first + (1 - rule.beta2) * g;
        return;
      }
      case OptimizerKind::kLars:
        first = rule.momentum * first + lr * g;
        w -= first;
        return;
      case OptimizerKind::kAdam:
      case OptimizerKind::kLamb:
      case OptimizerKind::kAdamW: {
        AddMoments(rule, g);
        third = std::max(third, second);
        const double v = (rule.amsgrad ? third : second) / (1 - std::pow(rule.beta2, t));
        w -= lr * first / (1 - std::pow(rule.beta1, t)) / (std::sqrt(v) + rule.eps);
        return;
      }
      case OptimizerKind::kAdagrad:
        first = (t == 1 ? rule.initial_accumulator_value : first) + g * g;
        w -= lr / (1 + (t - 1) * rule.lr_decay) * g / (std::sqrt(first) + rule.eps);
        return;
      case OptimizerKind::kRmsprop: {
        first = rule.alpha * first + (1 - rule.alpha) * g * g;
        third = rule.alpha * third + (1 - rule.alpha) * g;
        const double deviation = std::sqrt(rule.centered ? first - third * third : first) + rule.eps;
        second = rule.momentum * second + g / deviation;
        w -= lr * second;
        return;
      }
      case OptimizerKind::kAdadelta: {
        first = rule.alpha * first + (1 - rule.alpha) * g * g;
        const double delta = std::sqrt(second + rule.eps) / std::sqrt(first + rule.eps) * g;
        second = rule.alpha * second + (1 - rule.alpha) * delta * delta;
        w -= lr * delta;
        return;
      }
      case OptimizerKind::kAdamax:
        first = rule.beta1 * first + (1 - rule.beta1) * g;
        second = std::max(rule.beta2 * second, std::abs(g) + rule.eps);
        w -= lr / (1 - std::pow(rule.beta1, t)) * first / second;
        return;
      case OptimizerKind::kNadam: {
        AddMoments(rule, g);
        const double deviation = std::sqrt(second / (1 - std::pow(rule.beta2, t))) + rule.eps;
        const double now = MomentumAt(rule, t), next = MomentumAt(rule, t + 1);
        momenta *= now;
        w -= lr * (1 - now) / (1 - momenta) * g / deviation;
        w -= lr * next / (1 - momenta * next) * first / deviation;
        return;
      }
      case OptimizerKind::kRadam: {
        AddMoments(rule, g);
        const double power = std::pow(rule.beta2, t), limit = 2 / (1 - rule.beta2) - 1;
        const double length = limit - 2 * t * power / (1 - power);
        const double step = lr * first / (1 - std::pow(rule.beta1, t));
        if (length <= 5) {
          w -= step;
          return;
        }
        const double rectification =
            std::sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
        w -= step * rectification * std::sqrt(1 - power) / (std::sqrt(second) + rule.eps);
        return;
      }
    }
  }

  void AddMoments(const OptimizerRule& rule, double g) {
    first = rule.beta1 * first + (1 - rule.beta1) * g;
    second = rule.beta2 * second + (1 - rule.beta2) * g * g;
  }
  static double MomentumAt(const OptimizerRule& rule, int t) {
    return rule.beta1 * (1 - 0.5 * std::pow(0.96, t * rule.momentum_decay));
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
}

TEST_CASE("every kind has as many states as names of states, with every option", "[server][optimizer]") {
  std::size_t kinds = 0;
  for (int kind = 0; !WordOf(static_cast<OptimizerKind>(kind)).empty(); ++kind, ++kinds) {
    for (const bool option : {false, true}) {
      for (const double momentum : {0.0, 0.9}) {
        OptimizerSection section;
        section.kind = static_cast<OptimizerKind>(kind);
        section.amsgrad = section.centered = option;
        section.momentum = momentum;
        const int states = StateCount(MakeOptimizerRule(section));
        CAPTURE(WordOf(section.kind), option, momentum);
        CHECK(StateNames(section).size() == static_cast<std::size_t>(states));
        CHECK(states <= kStatesMax);
      }
    }
  }
  CHECK(kinds == 14);
}

TEST_CASE("a group's rule takes its arrays from the job and its numbers from the program", "[server][optimizer]") {
  OptimizerSection section;
  section.kind = OptimizerKind::kRmsprop;
  section.centered = true;
  section.momentum = 0.9;
  HyperParameters group;
  group.alpha = 0.5;
  const std::vector<GroupRule> rules = MakeGroupRules(MakeOptimizerRule(section), 1.0F, {group});
  CHECK(StateCount(rules.front().rule) == 3);
  CHECK(rules.front().rule.momentum == 0.0);
  CHECK(rules.front().rule.alpha == 0.5);
}

TEST_CASE("nadam's product of momenta follows from the update's number", "[server][optimizer]") {
  for (const double beta1 : {0.0, 0.5, 0.9, 0.999}) {
    for (const double decay : {0.0, 1e-12, 4e-3, 0.1, 2.0}) {
      double product = 1.0;
      for (std::uint64_t t = 1; t <= 2000; ++t) {
        product *= beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * decay));
        CAPTURE(beta1, decay, t);
        REQUIRE(formulas::NadamMomentumProduct(beta1, decay, t) == Approx(product).epsilon(1e-11).margin(1e-17));
      }
    }
  }
  CHECK(formulas::NadamMomentumProduct(0.9, 4e-3, UINT64_MAX) == 0.0);
}

TEST_CASE("centered rmsprop stays finite where its variance rounds to 0", "[server][optimizer]") {
  const GroupRule group{{.kind = OptimizerKind::kRmsprop, .alpha = 0.5, .centered = true}, 1e-3};
  const SegmentRange segment{0, 16, true};
  BlockArrays block(16, 1);
  const Contribution gradient({0, 1}, 1, Floats(16, 0.3F));
  const std::vector<StagedInput> cover{gradient.input()};
  for (std::uint64_t step = 1; step <= 200; ++step) {
    ReduceAndUpdate({&group, 1}, {.step = step}, cover, ReductionTree(1), {&segment, 1}, block.in(), block.out(),
                    block.squares);
    REQUIRE(std::isfinite(block.weights[3]));
  }
}

}  // namespace
}  // namespace capstan::server
