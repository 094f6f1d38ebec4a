// Tests of Replica: a worker's own copy of the weights, and its update.
#include <algorithm>
#include <limits>
#include <numeric>

#include "common/config/job_config.h"
#include "tests/catch.h"
#include "worker/allreduce/replica.h"
#include "worker/collective/buckets.h"

namespace capstan::train {
namespace {

constexpr std::uint32_t kBlockElements = 8;
const float kInfinity = std::numeric_limits<float>::infinity();

// A replica of two tensors, with a block each. Gradient descent with learning rate 1 and momentum 0.5.
class ReplicaHarness {
 public:
  explicit ReplicaHarness(const std::string& more = "")
      : config_(ParseJobConfig(
                    "[job]\nmode = \"allreduce\"\nsteps = 5\nglobal_batch = 4\nslots = 1\n[model]\nkind = \"mlp\"\n"
                    "[data]\nkind = \"synthetic\"\n[optimizer]\nkind = \"momentum\"\nmomentum = 0.5\n"
                    "lr = 1.0\n" +
                        more,
                    "test")
                    .value()),
        catalog_(
            Catalog::Create({{"a", {8}, {InitKind::kZeros, 0.0F}, true}, {"b", {6}, {InitKind::kZeros, 0.0F}, true}},
                            kBlockElements)
                .value()),
        replica(catalog_, config_),
        sum(catalog_.element_count()) {
    for (std::size_t i = 0; i < replica.array_count(); ++i) std::ranges::fill(replica.array(i), 0.0F);
    replica.Filled();
  }

  // Does a step whose gradient sum is `value` everywhere, over so many samples.
  Replica::Outcome Step(std::uint64_t step, float value, std::uint64_t samples = 4) {
    std::ranges::fill(sum, value);
    StepParameters parameters;
    parameters.updates = step;
    parameters.learning_rate = 1.0F;
    replica.BeginStep(parameters, samples, sum.data());
    for (auto block = static_cast<BlockIndex>(catalog_.blocks().size()); block-- > 0;) replica.UpdateBlock(block);
    return replica.FinishStep(capstan::Step{step});
  }
  float First(const Slice& array) const { return *reinterpret_cast<const float*>(array.data); }

 private:
  const JobConfig config_;
  const Catalog catalog_;

 public:
  Replica replica;
  std::vector<float> sum;
};

TEST_CASE("a replica makes the next version beside the present one", "[train][replica]") {
  ReplicaHarness harness;
  const Replica::Outcome outcome = harness.Step(0, 8.0F);
  CHECK(outcome.action == StepAction::kApply);
  CHECK(outcome.gradient_squares == 14 * 4.0);
  CHECK(harness.replica.weights()[0] == 0.0F);
  const std::vector<Slice> made = harness.replica.Made(outcome.action);
  REQUIRE(made.size() == 2);
  CHECK(harness.First(made[0]) == -2.0F);
  CHECK(harness.First(made[1]) == 2.0F);
  harness.replica.Publish();
  CHECK(harness.replica.weights()[13] == -2.0F);
  (void)harness.Step(1, 8.0F);
  harness.replica.Publish();
  CHECK(harness.replica.weights()[0] == -5.0F);  // -2 - (0.5 * 2 + 2)
}

TEST_CASE("a step that is begun again gives the same as one that was not", "[train][replica]") {
  ReplicaHarness once, twice;
  (void)twice.Step(0, 3.0F);
  const Replica::Outcome again = twice.Step(0, 8.0F), first = once.Step(0, 8.0F);
  CHECK(again.hash == first.hash);
  CHECK(again.gradient_squares == first.gradient_squares);
}

TEST_CASE("a gradient that is not finite, and one of no samples, leave the version as it is", "[train][replica]") {
  ReplicaHarness harness;
  (void)harness.Step(0, 8.0F);
  harness.replica.Publish();
  const auto [value, samples] = GENERATE(std::pair(kInfinity, 4U), std::pair(8.0F, 0U));
  const Replica::Outcome outcome = harness.Step(1, value, samples);
  CHECK(outcome.action == StepAction::kSkip);
  CHECK(harness.First(harness.replica.Made(outcome.action)[0]) == -2.0F);
  CHECK(harness.replica.weights()[0] == -2.0F);
}

TEST_CASE("a replica clips by the norm of the whole gradient", "[train][replica]") {
  ReplicaHarness harness("clip_norm = 0.5\n");
  const Replica::Outcome outcome = harness.Step(0, 8.0F);
  CHECK(outcome.gradient_squares == 14 * 4.0);  // before clipping
  const double norm = std::sqrt(14 * 4.0);
  CHECK(harness.First(harness.replica.Made(outcome.action)[0]) == Approx(-2.0 * 0.5 / norm));
}

TEST_CASE("a version that was given away and is still held is not written again", "[train][replica]") {
  ReplicaHarness harness;
  const Replica::Outcome outcome = harness.Step(0, 8.0F);
  const std::vector<Slice> given = harness.replica.Made(outcome.action);
  (void)harness.Step(0, 80.0F);  // the step begins again
  CHECK(harness.First(given[0]) == -2.0F);
  CHECK(harness.First(given[1]) == 2.0F);
  CHECK(harness.First(harness.replica.Made(outcome.action)[0]) == -20.0F);
}

TEST_CASE("other weights have another hash when their block's turn comes", "[train][replica]") {
  ReplicaHarness one, other;
  other.replica.array(0)[10] = 1.0F;  // in the second block
  CHECK(one.Step(0, 8.0F).hash == other.Step(0, 8.0F).hash);
  CHECK(one.Step(1, 8.0F).hash != other.Step(1, 8.0F).hash);
}

TEST_CASE("buckets are runs of blocks from the last to the first, and statistics go by themselves",
          "[train][replica]") {
  std::vector<TensorSpec> tensors;
  for (int i = 0; i < 6; ++i) {
    tensors.push_back({"t" + std::to_string(i), {8}, {InitKind::kZeros, 0.0F}, true});
    if (i == 3) tensors.back().kind = TensorKind::kStatistic;
  }
  const Catalog catalog = Catalog::Create(tensors, kBlockElements).value();
  const std::vector<Bucket> buckets = CutBuckets(catalog, 2 * kBlockElements * sizeof(float));
  std::uint64_t count = 0;
  std::vector<BlockIndex> order;
  for (const Bucket& bucket : buckets) {
    count += bucket.count;
    CHECK(bucket.count <= 2 * kBlockElements);
    for (BlockIndex block = bucket.last + 1; block-- > bucket.first;) {
      order.push_back(block);
      CHECK((catalog.blocks()[block].kind == TensorKind::kStatistic) == bucket.statistics);
    }
  }
  CHECK(count == catalog.element_count());
  CHECK(std::ranges::is_sorted(order, std::greater<>()));
  CHECK(buckets.size() < catalog.blocks().size());
}

}  // namespace
}  // namespace capstan::train
