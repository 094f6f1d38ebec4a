// Models that store weights and activations in 16 bits, against the same models in double on the same weights.
#include <cmath>
#include <vector>

#include "tests/catch.h"
#include "tests/worker/nn/subjects.h"

namespace capstan::nn {
namespace {

using kernels::CpuContext;
using kernels::Doubles;
using kernels::Poison;
using kernels::RelativeDistance;
using kernels::SameBits;

template <class T>
constexpr double kBound = std::is_same_v<T, Bf16> ? 2e-2 : 5e-3;

template <class T>
struct Trained16 {
  std::vector<Wide<T>> gradients;
  LossSums sums;
};

template <class T>
Trained16<T> TrainOnce16(const Subject& subject, int threads, const std::vector<T>& weights, const Samples& samples) {
  CpuContext context(threads);
  Trained16<T> result{Poison<Wide<T>>(static_cast<std::int64_t>(weights.size())), {}};
  result.sums = subject.Make<T>(context)->Train(weights.data(), result.gradients.data(), samples.View(), kKey,
                                                {.gradient_scale = 0.1}, {});
  return result;
}

TEMPLATE_TEST_CASE("gradients of a model in 16 bits are close to those of double, tensor by tensor", "[nn][16bit]",
                   Bf16, Half) {
  using T = TestType;
  CpuContext context(1);
  for (const Subject& subject : {LargerMlp(0), LargerMlp(0.1), LargerConvnet(0), LargerGpt(0), LargerGpt(0.1)}) {
    const auto model = subject.Make<T>(context);
    const std::vector<T> weights = SomeWeights(*model);
    Samples samples = subject.MakeSamples(3, 20);
    // Rounds the inputs, so that both models see the same. Otherwise a ReLU could be on in one model and off in the
    // other, and their gradients would not be close.
    for (float& x : samples.inputs) x = Widen(Narrow<T>(x));
    const Trained16<T> ours = TrainOnce16(subject, 1, weights, samples);
    const Trained16<double> wide = TrainOnce16(subject, 1, Doubles(weights), samples);
    CHECK(ours.sums.loss == Approx(wide.sums.loss).epsilon(kBound<T>));
    auto begin = ours.gradients.begin();
    auto wide_begin = wide.gradients.begin();
    for (const TensorSpec& tensor : model->tensors()) {
      const auto count = static_cast<std::ptrdiff_t>(tensor.ElementCount());
      CAPTURE(subject.name, tensor.name, subject.gpt.dropout);
      // In bf16, which has 8 significant bits, different pixels may become equal, and max pooling then takes another
      // one. In fp16, with 11 bits, that is rare.
      const double bound = subject.IsConvnet() && std::is_same_v<T, Bf16> ? 10 * kBound<T> : kBound<T>;
      CHECK(RelativeDistance(std::vector(begin, begin + count), std::vector(wide_begin, wide_begin + count)) < bound);
      begin += count;
      wide_begin += count;
    }
  }
}

TEMPLATE_TEST_CASE("a model in 16 bits gives the same bits for one and two threads", "[nn][16bit]", Bf16, Half) {
  using T = TestType;
  CpuContext context(1);
  for (const Subject& subject : {LargerMlp(0.1), LargerConvnet(0.1), LargerGpt(0.1)}) {
    const std::vector<T> weights = SomeWeights(*subject.Make<T>(context));
    const Samples samples = subject.MakeSamples(5, 21);
    const Trained16<T> one = TrainOnce16(subject, 1, weights, samples), two = TrainOnce16(subject, 2, weights, samples);
    CHECK(SameBits(one.gradients, two.gradients));
    CHECK(one.sums.loss == two.sums.loss);
    CHECK(one.sums.correct == two.sums.correct);
  }
}

TEMPLATE_TEST_CASE("gradients of micro-batches are added in float", "[nn][16bit]", Bf16, Half) {
  using T = TestType;
  CpuContext context(1);
  for (const Subject& subject : {LargerMlp(0), LargerConvnet(0), LargerGpt(0)}) {
    const auto model = subject.Make<T>(context);
    const std::vector<T> weights = SomeWeights(*model);
    const Samples first = subject.MakeSamples(2, 22), second = subject.MakeSamples(3, 23);
    auto added = Poison<float>(static_cast<std::int64_t>(weights.size()));
    model->Train(weights.data(), added.data(), first.View(), kKey, {.gradient_scale = 0.1}, {});
    model->Train(weights.data(), added.data(), second.View(), kKey, {0.1, GradientMode::kAdd}, {});
    std::vector<double> sum = Doubles(TrainOnce16(subject, 1, weights, first).gradients);
    const auto other = TrainOnce16(subject, 1, weights, second).gradients;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(other[i]);
    CHECK(RelativeDistance(added, sum) < 1e-6);
  }
}

// Returns the loss after some gradient steps on float weights, of which the model sees a rounded copy.
template <class T>
double LossAfterSteps(const Subject& subject, const Samples& samples) {
  CpuContext context(2);
  const auto model = subject.Make<T>(context);
  std::vector<float> master = SomeWeights(*subject.Make<float>(context)), gradients(master.size());
  std::vector<T> weights(master.size());
  LossSums sums;
  for (std::uint64_t step = 0; step < 30; ++step) {
    for (std::size_t i = 0; i < master.size(); ++i) weights[i] = Narrow<T>(master[i]);
    sums = model->Train(weights.data(), gradients.data(), samples.View(), {.seed = 1, .step = step},
                        {.gradient_scale = 1.0 / static_cast<double>(samples.targets.size())}, {});
    for (std::size_t i = 0; i < master.size(); ++i) master[i] -= 0.1F * gradients[i];
  }
  return sums.loss;
}

TEMPLATE_TEST_CASE("a model in 16 bits learns as one in float does", "[nn][16bit][long]", Bf16, Half) {
  for (const Subject& subject : {LargerMlp(0.05), LargerConvnet(0.05), LargerGpt(0.05)}) {
    const Samples samples = subject.MakeSamples(subject.IsGpt() ? 2 : 32, 24);
    const double wide = LossAfterSteps<float>(subject, samples);
    CAPTURE(subject.name);
    // A convnet has learned most of its samples by then. Its loss is so small that a relative bound would be too
    // strict.
    const double margin = subject.IsConvnet() ? 0.02 * 32 * std::log(10.0) : 0;
    CHECK(LossAfterSteps<TestType>(subject, samples) == Approx(wide).epsilon(kBound<TestType>).margin(margin));
  }
}

}  // namespace
}  // namespace capstan::nn
