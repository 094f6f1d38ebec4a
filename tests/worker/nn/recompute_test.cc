// GPT models that compute each layer's forward pass again in the backward pass, to save memory.
#include <vector>

#include "tests/catch.h"
#include "tests/worker/nn/subjects.h"

namespace capstan::nn {
namespace {

using kernels::CpuContext;
using kernels::Poison;
using kernels::SameBits;

template <class T>
struct TrainedAgain {
  std::vector<Wide<T>> gradients;
  LossSums sums, evaluated;
  std::size_t bytes;
};

// Trains two micro-batches, with an evaluation between them.
template <class T>
TrainedAgain<T> Train(const Subject& subject, int threads) {
  CpuContext context(threads);
  const auto model = subject.Make<T>(context);
  const std::vector<T> weights = SomeWeights(*model);
  TrainedAgain<T> result{Poison<Wide<T>>(static_cast<std::int64_t>(weights.size())), {}, {}, 0};
  model->Train(weights.data(), result.gradients.data(), subject.MakeSamples(4, 30).View(), kKey, {}, {});
  result.evaluated = model->Evaluate(weights.data(), subject.MakeSamples(2, 31).View(), {});
  result.sums = model->Train(weights.data(), result.gradients.data(), subject.MakeSamples(3, 32).View(), kKey,
                             {1, GradientMode::kAdd}, {});
  result.bytes = model->activation_bytes();
  return result;
}

TEMPLATE_TEST_CASE("recomputed layers give the same bits in less memory", "[nn][gpt]", float, double, Bf16, Half) {
  using T = TestType;
  for (const std::int64_t layers : {1, 2, 5}) {
    Subject subject = LargerGpt(0.2);
    subject.gpt.layers = layers;
    const TrainedAgain<T> kept = Train<T>(subject, 1);
    subject.gpt.recompute = true;
    const TrainedAgain<T> again = Train<T>(subject, 2);
    CAPTURE(layers);
    CHECK(SameBits(again.gradients, kept.gradients));
    CHECK(again.sums.loss == kept.sums.loss);
    CHECK(again.evaluated.loss == kept.evaluated.loss);
    // For each token a layer keeps 16 times its width in numbers, and some statistics; with recomputation, once its
    // width.
    const auto row = static_cast<std::size_t>(4 * subject.gpt.context * subject.gpt.width) * sizeof(T);
    CHECK(kept.bytes - again.bytes >= static_cast<std::size_t>(layers - 1) * 15 * row);
  }
}

}  // namespace
}  // namespace capstan::nn
