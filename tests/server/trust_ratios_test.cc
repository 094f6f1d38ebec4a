// Trust ratios: how they follow from sums of squares, are sent in a Redo, and scale the update of a shard's blocks.
#include "update/trust_ratios.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/prepared.h"

#include <cmath>
#include <limits>

#include "common/base/random.h"
#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

OptimizerSection Lars(double trust_coefficient, double weight_decay) {
  OptimizerSection optimizer;
  optimizer.kind = OptimizerKind::kLars;
  optimizer.trust_coefficient = trust_coefficient;
  optimizer.weight_decay = weight_decay;
  return optimizer;
}

OptimizerSection Lamb() {
  OptimizerSection optimizer;
  optimizer.kind = OptimizerKind::kLamb;
  return optimizer;
}

// The shards' reports of one step. Set takes the squares of the tensors' segments, in catalog order.
class Reports {
 public:
  Reports(const std::vector<TensorSpec>& tensors, std::uint32_t block_elements, std::uint32_t shards)
      : catalog_(Catalog::Create(tensors, block_elements).value()), order_(catalog_, shards), prepared_(shards) {
    for (ShardIndex shard = 0; shard < shards; ++shard) {
      prepared_[shard].shard = shard;
      for (auto* squares : {&Of(shard).segment_squares, &Of(shard).weight_squares, &Of(shard).direction_squares}) {
        squares->assign(order_.segment_count(shard), 1.0);
      }
    }
    SlotReport slot;
    slot.samples = 1;
    Of(0).slots.push_back(slot);
  }
  const Catalog& catalog() const { return catalog_; }
  void Set(const std::vector<double>& weights, const std::vector<double>& direction) {
    order_.ForEach([&](ShardIndex shard, std::size_t position, std::size_t segment) {
      Of(shard).weight_squares[position] = weights.at(segment);
      Of(shard).direction_squares[position] = direction.at(segment);
    });
  }
  void SetGradient(double squares) {
    order_.ForEach(
        [&](ShardIndex shard, std::size_t position, std::size_t) { Of(shard).segment_squares[position] = squares; });
  }
  std::vector<float> Ratios(const OptimizerSection& optimizer) const {
    return TrustRatios(optimizer, catalog_, order_, All());
  }
  Verdict Judge(const OptimizerSection& optimizer, std::uint32_t attempt,
                NonFinitePolicy policy = NonFinitePolicy::kStop) const {
    EditableJobConfig config;
    config.job.on_nonfinite = policy;
    config.job.steps = 10;
    config.optimizer = optimizer;
    return Decide(config, catalog_, order_, All(), attempt, {});
  }

 private:
  PrepareReport& Of(ShardIndex shard) { return prepared_[shard].report; }
  std::vector<const Prepared*> All() const {
    std::vector<const Prepared*> all;
    for (const Prepared& one : prepared_) all.push_back(&one);
    return all;
  }

  Catalog catalog_;
  SegmentOrder order_;
  std::vector<Prepared> prepared_;
};

// The tensor is [3, 4], with gradient [0.6, 0.1]. If each half had a ratio of its own, these would be 0.004998 and
// 0.039841.
TEST_CASE("lars: a tensor that is split over two shards has the ratio of the whole one, 0.008215", "[server][trust]") {
  Reports reports({{"w", {1, 2}, {}, true}}, 1, 2);
  REQUIRE(reports.catalog().segments().size() == 2);
  const float weights[] = {3.0F, 4.0F}, gradients[] = {0.6F, 0.1F};
  const GroupRule rule{{.kind = OptimizerKind::kLars, .momentum = 0.9, .weight_decay = 1e-4}, 1.0};
  std::vector<double> weight_squares(2), direction_squares(2);
  for (std::size_t i = 0; i < 2; ++i) {
    const SegmentRange segment{0, 1, true};
    const StagedInput input{{0, 1}, 1, reinterpret_cast<const std::byte*>(&gradients[i])};
    const float state = 0.0F;
    float new_weight = 0.0F, new_state = 0.0F;
    double squares = 0.0;
    ReduceAndUpdate({&rule, 1}, {}, {&input, 1}, ReductionTree(1), {&segment, 1}, {&weights[i], {&state}},
                    {&new_weight, {&new_state}}, {&squares, 1}, {{&weight_squares[i], 1}, {&direction_squares[i], 1}});
  }
  reports.Set(weight_squares, direction_squares);
  const std::vector<float> ratios = reports.Ratios(Lars(1e-3, 1e-4));
  REQUIRE(ratios.size() == 1);
  CHECK(static_cast<double>(ratios[0]) == Approx(0.008215).epsilon(1e-4));
  CHECK(static_cast<double>(ratios[0]) == Approx(1e-3 * 5 / std::hypot(0.6003, 0.1004)).epsilon(1e-7));
}

TEST_CASE("a ratio has the same bits whatever the number of shards", "[server][trust]") {
  const std::vector<TensorSpec> tensors = {
      {"a", {31, 1}, {}, true}, {"b", {2, 2}, {}, true}, {"c", {257, 1}, {}, true}, {"d", {17, 1}, {}, true}};
  RandomStream random(5);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> first;
    std::vector<double> weights, direction;
    for (std::uint32_t shards : {1U, 2U, 3U, 5U, 40U}) {
      Reports reports(tensors, 8, shards);
      const std::size_t count = reports.catalog().segments().size();
      while (weights.size() < count) {
        weights.push_back(random.Unit() * std::pow(10.0, static_cast<double>(random.Below(16))));
        direction.push_back(random.Unit() * std::pow(10.0, static_cast<double>(random.Below(16))));
      }
      reports.Set(weights, direction);
      const std::vector<float> ratios = reports.Ratios(Lamb());
      if (first.empty()) first = ratios;
      REQUIRE(ratios == first);
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        double w = 0, d = 0;
        for (std::size_t s = 0; s < count; ++s) {
          if (reports.catalog().segments()[s].tensor != t) continue;
          w += weights[s];
          d += direction[s];
        }
        REQUIRE(ratios[t] == static_cast<float>(std::sqrt(w) / std::sqrt(d)));
      }
    }
  }
}

TEST_CASE("a ratio is 1 for a norm of 0, for what is not finite, and by lars for one dimension", "[server][trust]") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  const std::pair<double, double> none[] = {{0.0, 1.0},  {1.0, 0.0},       {0.0, 0.0},       {kNaN, 1.0},
                                            {1.0, kNaN}, {kInfinity, 1.0}, {1.0, kInfinity}, {-1.0, 1.0},
                                            {1.0, -1.0}, {1e200, 1e-200},  {1e-80, 1e40},    {kInfinity, kInfinity}};
  Reports reports({{"weight", {2, 2}, {}, true}, {"bias", {4}, {}, true}}, 4, 2);
  for (const auto& [weights, direction] : none) {
    reports.Set({weights, weights}, {direction, direction});
    CAPTURE(weights, direction);
    CHECK(reports.Ratios(Lamb()) == std::vector<float>{1.0F, 1.0F});
    CHECK(reports.Ratios(Lars(0.5, 0.0)) == std::vector<float>{1.0F, 1.0F});
  }
  reports.Set({9.0, 9.0}, {4.0, 4.0});
  CHECK(reports.Ratios(Lamb()) == std::vector<float>{1.5F, 1.5F});
  CHECK(reports.Ratios(Lars(0.5, 0.0)) == std::vector<float>{0.75F, 1.0F});
}

TEST_CASE("a step is redone once with ratios, and with clipping once before with its factor", "[server][trust]") {
  Reports reports({{"a", {2, 2}, {}, true}, {"b", {2, 2}, {}, true}}, 4, 2);
  OptimizerSection optimizer = Lamb();
  reports.Set({9.0, 9.0}, {4.0, 4.0});
  const Verdict ratios = reports.Judge(optimizer, 0);
  CHECK(ratios.kind == Verdict::Kind::kRedo);
  CHECK(ratios.clip == 1.0F);
  CHECK(ratios.trust_ratios == std::vector<float>{1.5F, 1.5F});
  CHECK(reports.Judge(optimizer, 1).kind == Verdict::Kind::kCommit);

  reports.SetGradient(2.0);  // norm 2
  optimizer.clip_norm = 3.0;
  CHECK(reports.Judge(optimizer, 0).trust_ratios.size() == 2);
  CHECK(reports.Judge(optimizer, 1).kind == Verdict::Kind::kCommit);
  optimizer.clip_norm = 1.0;
  const Verdict clip = reports.Judge(optimizer, 0);
  CHECK(clip.kind == Verdict::Kind::kRedo);
  CHECK(clip.clip == static_cast<float>(1.0 / (2.0 + 1e-6)));
  CHECK(clip.trust_ratios.empty());
  reports.Set({9.0, 9.0}, {1.0, 4.0});  // by the clipped gradient
  const Verdict both = reports.Judge(optimizer, 1);
  CHECK(both.kind == Verdict::Kind::kRedo);
  CHECK(both.clip == clip.clip);
  CHECK(both.trust_ratios == std::vector<float>{3.0F, 1.5F});
  CHECK(both.record.gradient_norm == 2.0);
  CHECK(reports.Judge(optimizer, 2).kind == Verdict::Kind::kCommit);
  // A new coordinator finds reports of the last attempt, and decides from attempt 0 on again.
  CHECK(reports.Judge(optimizer, 0).clip == clip.clip);
  CHECK(reports.Judge(optimizer, 0).trust_ratios.empty());
}

TEST_CASE("a step that is skipped is not redone", "[server][trust]") {
  Reports reports({{"a", {2, 2}, {}, true}}, 4, 1);
  CHECK(reports.Judge(Lamb(), 0).kind == Verdict::Kind::kRedo);
  reports.SetGradient(std::numeric_limits<double>::infinity());
  const Verdict verdict = reports.Judge(Lamb(), 0, NonFinitePolicy::kSkip);
  CHECK(verdict.kind == Verdict::Kind::kCommit);
  CHECK(verdict.action == StepAction::kSkip);
}

// ---- the coordinator

CoordinatorHarness LambHarness(double clip_norm) {
  CoordinatorHarness harness;
  harness.config.optimizer = Lamb();
  harness.config.optimizer.clip_norm = clip_norm;
  harness.Run();
  return harness;
}

TEST_CASE("ratios follow the clip factor, and only the attempt that has both is committed", "[server][trust]") {
  CoordinatorHarness harness = LambHarness(1.0);
  for (ShardIndex i : {0U, 1U}) harness.Prepares(i, 0, 50.0);
  for (ShardIndex i : {0U, 1U}) {
    const Redo redo = harness.TakeFromShard<Redo>(i).at(0);
    CHECK(redo.attempt == 1);
    CHECK(redo.clip == static_cast<float>(1.0 / (10.0 + 1e-6)));
    CHECK(redo.trust_ratios.empty());
  }
  for (ShardIndex i : {0U, 1U}) harness.Prepares(i, 0, 50.0, 1);
  for (ShardIndex i : {0U, 1U}) {
    const Redo redo = harness.TakeFromShard<Redo>(i).at(0);
    CHECK(redo.attempt == 2);
    CHECK(redo.clip == static_cast<float>(1.0 / (10.0 + 1e-6)));
    CHECK(redo.trust_ratios == std::vector<float>{4.0F, 4.0F});  // 2 / 0.5
  }
  CHECK(harness.Count<Commit>() == 0);
  for (ShardIndex i : {0U, 1U}) harness.Prepares(i, 0, 50.0, 2);
  for (ShardIndex i : {0U, 1U}) CHECK(harness.TakeFromShard<Commit>(i).at(0).attempt == 2);
}

TEST_CASE("a Prepared without the squares that a ratio needs does not count", "[server][trust]") {
  CoordinatorHarness harness = LambHarness(0.0);
  harness.Prepares(0, 0);
  std::vector<Prepared> bad(4, harness.MakePrepared(1, 0));
  bad[0].report.weight_squares.clear();
  bad[1].report.direction_squares.clear();
  bad[2].report.weight_squares.push_back(1.0);
  bad[3].report.direction_squares.push_back(1.0);
  for (const Prepared& one : bad) harness.Send(harness.shards[1].peer, one);
  CHECK(harness.Count<Redo>() == 0);
  harness.Prepares(1, 0);
  CHECK(harness.TakeFromShard<Redo>(1).at(0).trust_ratios == std::vector<float>{2.0F, 2.0F});

  CoordinatorHarness other;  // an optimizer that needs none
  other.Run();
  other.Prepares(0, 0);
  Prepared superfluous = other.MakePrepared(1, 0);
  superfluous.report.weight_squares = superfluous.report.direction_squares = {1.0};
  other.Send(other.shards[1].peer, superfluous);
  CHECK(other.Count<Commit>() == 0);
}

TEST_CASE("a new coordinator gives the same ratios to shards at whichever attempts", "[server][trust][takeover]") {
  for (const std::uint32_t done : {0U, 1U}) {  // the attempt that both shards have executed; shard 0 is one further
    CoordinatorHarness harness = LambHarness(1.0);
    for (std::uint32_t attempt = 0; attempt <= done; ++attempt) {
      for (ShardIndex i : {0U, 1U}) harness.Prepares(i, 0, 50.0, attempt);
    }
    const Redo redo = harness.TakeFromShard<Redo>(1).back();
    REQUIRE(redo.attempt == done + 1);
    harness.Prepares(0, 0, 50.0, done + 1);
    harness.Live();
    harness.ShardsEchoTerm();
    CHECK(harness.Count<Commit>() == 0);
    CHECK(harness.TakeFromShard<Redo>(0).empty());
    const Redo again = harness.TakeFromShard<Redo>(1).back();
    CAPTURE(done);
    CHECK(again.attempt == redo.attempt);
    CHECK(again.clip == redo.clip);
    CHECK(again.trust_ratios == redo.trust_ratios);
    harness.Prepares(1, 0, 50.0, done + 1);
    for (ShardIndex i : {0U, 1U}) {
      if (done == 0) harness.Prepares(i, 0, 50.0, 2);
    }
    for (ShardIndex i : {0U, 1U}) CHECK(harness.TakeFromShard<Commit>(i).at(0).attempt == 2);
  }
}

// ---- the shard

TEST_CASE("a shard reports squares of weights and directions, and scales each tensor's step by its ratio",
          "[server][trust]") {
  ShardHarness harness({.optimizer = OptimizerKind::kLars});  // momentum 0.5, rate 1
  harness.Start().CompleteStep(0, 8.0F);
  const PrepareReport first = harness.Take<Prepared>(kCoordinator).at(0).report;
  CHECK(first.weight_squares == std::vector<double>{0.0, 0.0, 0.0});
  CHECK(first.direction_squares == std::vector<double>{256.0, 256.0, 128.0});
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.5F));
  const PrepareReport clipped = harness.Take<Prepared>(kCoordinator).at(0).report;
  CHECK(clipped.segment_squares == first.segment_squares);
  CHECK(clipped.direction_squares == std::vector<double>{64.0, 64.0, 32.0});
  harness.FromCoordinator(harness.MakeRedo(0, 2, 0.5F, {0.5F, 1.0F, 2.0F}));
  const Prepared last = harness.Take<Prepared>(kCoordinator).at(0);
  CHECK(last.attempt == 2);
  CHECK(last.report == clipped);
  harness.Commits(0, 2);
  CHECK(harness.WeightOf(0) == -2.0F);
  CHECK(harness.WeightOf(1) == -4.0F);
  CHECK(harness.WeightOf(2) == -8.0F);
  harness.CompleteStep(1, 0.0F);  // only momentum; the ratios and the factor applied to that step
  CHECK(harness.Take<Prepared>(kCoordinator).at(0).report.weight_squares == std::vector<double>{16.0, 64.0, 128.0});
  harness.FromCoordinator(harness.MakeRedo(1, 1, 1.0F, {3.0F, 3.0F, 3.0F}));
  harness.Commits(1, 1);
  CHECK(harness.WeightOf(0) == -3.0F);
  CHECK(harness.WeightOf(2) == -12.0F);
}

TEST_CASE("a Redo with ratios for another number of tensors is not carried out", "[server][trust]") {
  ShardHarness harness({.optimizer = OptimizerKind::kLamb});
  harness.Start().CompleteStep(0, 8.0F);
  harness.Forget();
  for (std::size_t count : {1U, 2U, 4U, 65536U}) {
    harness.FromCoordinator(harness.MakeRedo(0, 1, 1.0F, std::vector<float>(count, 2.0F)));
    CHECK(harness.Silent());
  }
  harness.FromCoordinator(harness.MakeRedo(0, 1, 1.0F, {2.0F, 2.0F, 2.0F}));
  CHECK(harness.Take<Prepared>(kCoordinator).at(0).attempt == 1);
}

TEST_CASE("other optimizers report no such squares", "[server][trust]") {
  ShardHarness harness({.optimizer = OptimizerKind::kAdamW});
  harness.Start().CompleteStep(0, 8.0F);
  const PrepareReport report = harness.Take<Prepared>(kCoordinator).at(0).report;
  CHECK(report.weight_squares.empty());
  CHECK(report.direction_squares.empty());
}

}  // namespace
}  // namespace capstan::server
