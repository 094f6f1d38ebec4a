#include "worker/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/catch.h"

using namespace capstan;
using namespace capstan::train;

namespace {

std::vector<std::uint64_t> Slot(const SamplerSpec& spec, std::uint64_t step, SlotIndex slot) {
  std::vector<std::uint64_t> samples = {123};  // must be replaced, not kept
  SlotSamples(spec, Step{step}, slot, &samples);
  return samples;
}

// Returns the samples of all slots in order, one slot after the other.
std::vector<std::uint64_t> Batch(const SamplerSpec& spec, std::uint64_t step) {
  std::vector<std::uint64_t> all;
  for (SlotIndex slot = 0; slot < spec.slots; ++slot) {
    const auto samples = Slot(spec, step, slot);
    all.insert(all.end(), samples.begin(), samples.end());
  }
  return all;
}

std::vector<std::uint64_t> Range(std::uint64_t count) {
  std::vector<std::uint64_t> range(count);
  std::iota(range.begin(), range.end(), 0);
  return range;
}

}  // namespace

TEST_CASE("each sample comes once in each epoch, whatever the sizes", "[sampler]") {
  const std::uint64_t size = GENERATE(1, 2, 3, 5, 7, 16, 17, 97, 100, 1000, 1437, 4096);
  const std::uint32_t batch = GENERATE(1, 3, 8, 64, 5000);
  const SamplerSpec spec{.seed = 7, .dataset_size = size, .global_batch = batch, .slots = 3};
  const std::uint64_t steps = StepsPerEpoch(spec);
  REQUIRE(steps == (size + batch - 1) / batch);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::uint64_t> seen;
    for (std::uint64_t step = epoch * steps; step < (epoch + 1) * steps; ++step) {
      const auto samples = Batch(spec, step);
      REQUIRE(samples.size() == BatchSize(spec, Step{step}));
      seen.insert(seen.end(), samples.begin(), samples.end());
    }
    std::sort(seen.begin(), seen.end());
    REQUIRE(seen == Range(size));
  }
}

TEST_CASE("a global batch is the same samples in the same order for any number of slots", "[sampler]") {
  SamplerSpec spec{.seed = 3, .dataset_size = 1001, .global_batch = 50, .slots = 1};
  for (std::uint64_t step : {0, 1, 19, 20, 21, 41, 1000}) {
    spec.slots = 1;
    const auto whole = Batch(spec, step);
    for (std::uint32_t slots : {2, 3, 5, 7, 50, 64}) {
      spec.slots = slots;
      REQUIRE(Batch(spec, step) == whole);
    }
  }
}

TEST_CASE("slots of a step differ by at most one sample, and may have none at the end of an epoch", "[sampler]") {
  const SamplerSpec spec{.seed = 3, .dataset_size = 103, .global_batch = 10, .slots = 4};
  CHECK(BatchSize(spec, Step{9}) == 10);
  CHECK(BatchSize(spec, Step{10}) == 3);
  CHECK(BatchSize(spec, Step{11}) == 10);
  CHECK(Slot(spec, 0, 0).size() == 3);
  CHECK(Slot(spec, 0, 2).size() == 2);
  CHECK(Slot(spec, 10, 2).size() == 1);
  CHECK(Slot(spec, 10, 3).empty());
}

TEST_CASE("epochs and seeds have orders of their own, and the same order again", "[sampler]") {
  const SamplerSpec spec{.seed = 1, .dataset_size = 500, .global_batch = 500, .slots = 1};
  SamplerSpec other = spec;
  other.seed = 2;
  CHECK(Batch(spec, 0) == Batch(spec, 0));
  CHECK(Batch(spec, 0) != Batch(spec, 1));
  CHECK(Batch(spec, 0) != Batch(other, 0));
  CHECK(Batch(spec, 0) != Range(500));
}

TEST_CASE("every sample comes to every place about equally often", "[sampler]") {
  // Each of 12 samples should come to each of 12 places in about 500 of the 6000 epochs. The standard deviation is
  // 21.4; the limits are 6.5 deviations away.
  constexpr std::uint64_t kSize = 12, kEpochs = 6000;
  std::vector<int> counts(kSize * kSize);
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const EpochPermutation order(11, epoch, kSize);
    for (std::uint64_t place = 0; place < kSize; ++place) ++counts[place * kSize + order(place)];
  }
  CHECK(*std::min_element(counts.begin(), counts.end()) > 361);
  CHECK(*std::max_element(counts.begin(), counts.end()) < 639);
}

TEST_CASE("neighbours in an epoch are no neighbours in the data", "[sampler]") {
  const EpochPermutation order(5, 0, 10000);
  int near = 0;
  for (std::uint64_t i = 0; i + 1 < 10000; ++i) {
    const auto a = static_cast<std::int64_t>(order(i)), b = static_cast<std::int64_t>(order(i + 1));
    if (std::abs(a - b) <= 10) ++near;  // 20 expected in a random order
  }
  CHECK(near < 60);
}

TEST_CASE("the order of samples never changes between releases", "[sampler]") {
  const EpochPermutation order(1, 0, 1437);
  std::vector<std::uint64_t> first;
  for (std::uint64_t i = 0; i < 5; ++i) first.push_back(order(i));
  CHECK(first == std::vector<std::uint64_t>{744, 823, 168, 14, 1291});
}

TEST_CASE("an epoch of a trillion samples needs no list", "[sampler]") {
  const SamplerSpec spec{.seed = 9, .dataset_size = std::uint64_t{1} << 40, .global_batch = 64, .slots = 4};
  const auto samples = Batch(spec, 123456789);
  CHECK(std::set<std::uint64_t>(samples.begin(), samples.end()).size() == 64);
  for (std::uint64_t sample : samples) CHECK(sample < spec.dataset_size);
}

TEST_CASE("the shares of validation follow each other and cover all", "[sampler]") {
  for (std::uint64_t count : {0, 1, 4, 5, 101}) {
    for (std::uint32_t slots : {1, 2, 3, 7}) {
      std::uint64_t next = 0;
      for (SlotIndex slot = 0; slot < slots; ++slot) {
        const SampleRange share = ValidationShare(count, slots, slot);
        REQUIRE(share.first == next);
        REQUIRE(share.count() >= count / slots);
        REQUIRE(share.count() <= count / slots + 1);
        next = share.last;
      }
      REQUIRE(next == count);
    }
  }
}
