// ScaleCost: one operation that `capstan bench scale` measures. ScaleTimer: measures the time of a repeated operation.
//
// Kind:   values.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/scale_bench.h"
#include "common/data/catalog.h"
#include "common/wire/actor.h"

namespace capstan::bench {

class ScaleTimer {
 public:
  explicit ScaleTimer(double seconds) : least_(seconds) {}

  // Calls work(i) for i = 0, 1, ... until the time is over or i reaches `count_max`. Returns the microseconds per call.
  template <class Work>
  double Each(std::size_t count_max, const Work& work) const {
    const auto start = std::chrono::steady_clock::now();
    std::chrono::duration<double> took{};
    std::size_t count = 0;
    while (count < count_max && took.count() < least_) {
      work(count++);
      took = std::chrono::steady_clock::now() - start;
    }
    return took.count() * 1e6 / static_cast<double>(count);
  }

 private:
  double least_;
};

inline constexpr std::size_t kManyTimes = 1'000'000;  // a limit that no figure reaches

enum class GrowsBy { kWorkers, kShards };

struct ScaleCost {
  std::string name;  // core/operation
  GrowsBy by = GrowsBy::kShards;
  double design = 0.0;  // exponent by design; 0: constant cost
  std::function<double(ScaleSize, const ScaleTimer&)> microseconds;
};

std::vector<ScaleCost> CoordinatorCosts();
std::vector<ScaleCost> ShardCosts();
std::vector<ScaleCost> SessionCosts();

// Encodes all messages as a transport would, and drops them. CHECKs that each can be sent.
void EncodeAndForget(Outbox* out);
// Returns one tensor of `blocks` blocks of kScaleBlockElements elements.
inline constexpr std::uint32_t kScaleBlockElements = 4;
std::vector<TensorSpec> ScaleTensors(std::size_t blocks);

}  // namespace capstan::bench
