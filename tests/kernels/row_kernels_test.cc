// Layer norm, loss, embedding, dropout, axpby, bias and activation: compared with their definitions, with finite
// differences, and between one thread and several.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/activation_math.h"
#include "kernels/axpby.h"
#include "kernels/bias_activation.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/layer_norm.h"
#include "kernels/softmax_cross_entropy.h"
#include "tests/catch.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

template <class Real>
struct Normalised {
  Normalised(CpuContext& context, std::int64_t n, std::int64_t columns, const Real* a, const Real* b, const Real* gamma,
             const Real* beta)
      : sum(Poison<Real>(n * columns)), y(Poison<Real>(n * columns)), mean(Poison<Real>(n)), inverse(Poison<Real>(n)) {
    ResidualLayerNorm(context, ResidualLayerNormArgs<Real>{.rows = n,
                                                           .columns = columns,
                                                           .a = a,
                                                           .b = b,
                                                           .sum = sum.data(),
                                                           .gamma = gamma,
                                                           .beta = beta,
                                                           .y = y.data(),
                                                           .mean = mean.data(),
                                                           .inverse_deviation = inverse.data()});
  }
  std::vector<Real> sum, y, mean, inverse;
};

TEST_CASE("layer norm of a sum and its gradients agree with finite differences", "[kernels][layer_norm]") {
  CpuContext context(1);
  struct Shape {
    std::int64_t n, columns;
  };
  for (const Shape& shape : {Shape{1, 2}, Shape{3, 17}, Shape{70, 5}}) {
    const std::int64_t n = shape.n, columns = shape.columns, size = n * columns;
    // All inputs in one vector: a, b, gamma, beta.
    const auto all = RandomNumbers<double>(2 * size + 2 * columns, 1);
    const auto dy = RandomNumbers<double>(size, 2);
    const auto forward = [&](const std::vector<double>& v) {
      return Normalised<double>(context, n, columns, v.data(), v.data() + size, v.data() + 2 * size,
                                v.data() + 2 * size + columns);
    };
    const auto numeric = NumericGradient(all, [&](const std::vector<double>& v) { return DotOf(forward(v).y, dy); });
    const auto kept = forward(all);
    auto dx = RandomNumbers<double>(size, 3), dgamma = Poison<double>(columns), dbeta = Poison<double>(columns);
    const auto dx_before = dx;
    LayerNormBackward(context, LayerNormGradient<double>{.rows = n,
                                                         .columns = columns,
                                                         .x = kept.sum.data(),
                                                         .mean = kept.mean.data(),
                                                         .inverse_deviation = kept.inverse.data(),
                                                         .gamma = all.data() + 2 * size,
                                                         .dy = dy.data(),
                                                         .dx = dx.data(),
                                                         .dx_beta = 1,
                                                         .gamma_gradient = dgamma.data(),
                                                         .beta_gradient = dbeta.data()});
    std::vector<double> ours;
    for (std::size_t i = 0; i < dx.size(); ++i) ours.push_back(dx[i] - dx_before[i]);
    ours.insert(ours.end(), ours.begin(), ours.begin() + size);  // a and b have the same gradient
    ours.insert(ours.end(), dgamma.begin(), dgamma.end());
    ours.insert(ours.end(), dbeta.begin(), dbeta.end());
    CHECK(Agree<double>("layer norm: all gradients (differences)", RelativeDistance(ours, numeric), 1e-6));
  }
}

TEST_CASE("a normalised row has mean 0 and variance 1, and is the same for any number of threads",
          "[kernels][layer_norm]") {
  constexpr std::int64_t kRows = 300, kColumns = 257;
  const auto a = RandomNumbers<float>(kRows * kColumns, 1);
  const std::vector<float> ones(kColumns, 1), zeros(kColumns, 0);
  CpuContext one(1), three(3);
  const Normalised<float> x(one, kRows, kColumns, a.data(), nullptr, ones.data(), zeros.data());
  const Normalised<float> y(three, kRows, kColumns, a.data(), nullptr, ones.data(), zeros.data());
  CHECK(x.y == y.y);
  double worst = 0;
  for (std::int64_t row = 0; row < kRows; ++row) {
    double mean = 0, square = 0;
    for (std::int64_t j = 0; j < kColumns; ++j) {
      const double v = static_cast<double>(x.y[static_cast<std::size_t>(row * kColumns + j)]);
      mean += v / kColumns;
      square += v * v / kColumns;
    }
    worst = std::max({worst, std::fabs(mean), std::fabs(square - 1)});
  }
  CHECK(worst < 1e-4);

  std::vector<std::vector<float>> results;
  for (CpuContext* context : {&one, &three}) {
    auto dx = Poison<float>(kRows * kColumns), dgamma = RandomNumbers<float>(kColumns, 5);
    auto dbeta = RandomNumbers<float>(kColumns, 6);
    LayerNormBackward(*context, LayerNormGradient<float>{.rows = kRows,
                                                         .columns = kColumns,
                                                         .x = a.data(),
                                                         .mean = x.mean.data(),
                                                         .inverse_deviation = x.inverse.data(),
                                                         .gamma = ones.data(),
                                                         .dy = x.y.data(),
                                                         .dx = dx.data(),
                                                         .gamma_gradient = dgamma.data(),
                                                         .beta_gradient = dbeta.data(),
                                                         .parameter_beta = 1});
    dx.insert(dx.end(), dgamma.begin(), dgamma.end());
    dx.insert(dx.end(), dbeta.begin(), dbeta.end());
    results.push_back(dx);
  }
  CHECK(results[0] == results[1]);
  CHECK(!std::isnan(DotOf(results[0], results[0])));
}

template <class Real>
LossResult Loss(CpuContext& context, std::vector<Real>& logits, std::int64_t classes,
                const std::vector<std::int32_t>& targets, Real scale) {
  LossResult result;
  SoftmaxCrossEntropy(context, SoftmaxCrossEntropyArgs<Real>{.rows = static_cast<std::int64_t>(targets.size()),
                                                             .classes = classes,
                                                             .stride = classes,
                                                             .logits = logits.data(),
                                                             .targets = targets.data(),
                                                             .gradient_scale = scale,
                                                             .result = &result});
  return result;
}

TEST_CASE("the loss and its gradient agree with the definition and finite differences", "[kernels][loss]") {
  CpuContext context(1), two(2);
  for (const std::int64_t classes : {1, 2, 17, 40}) {
    const auto targets = RandomIndices(37, static_cast<std::int32_t>(classes), 1);
    const auto logits = RandomNumbers<double>(37 * classes, 2);
    double expected = 0;
    std::int64_t correct = 0;
    for (std::size_t row = 0; row < targets.size(); ++row) {
      const double* x = logits.data() + row * static_cast<std::size_t>(classes);
      double sum = 0;
      for (std::int64_t j = 0; j < classes; ++j) sum += std::exp(x[j]);
      expected += std::log(sum) - x[targets[row]];
      correct += std::max_element(x, x + classes) - x == targets[row];
    }
    std::vector<double> gradient = logits;
    const LossResult result = Loss(context, gradient, classes, targets, 0.25);
    CHECK(result.loss == Approx(expected).epsilon(1e-13).margin(1e-13));
    CHECK(result.correct == correct);
    const auto numeric = NumericGradient(logits, [&](const std::vector<double>& x) {
      std::vector<double> copy = x;
      return 0.25 * Loss(context, copy, classes, targets, 1.0).loss;
    });
    if (classes == 1) {
      CHECK(DotOf(gradient, gradient) < 1e-20);
    } else {
      CHECK(Agree<double>("classifier: gradient (differences)", RelativeDistance(gradient, numeric), 1e-7));
    }
    std::vector<float> first(logits.begin(), logits.end()), second = first;
    const double loss = Loss(context, first, classes, targets, 1.0F).loss;
    CHECK(loss == Loss(two, second, classes, targets, 1.0F).loss);
    CHECK(first == second);
    CHECK(loss == Approx(expected).epsilon(1e-6).margin(1e-6));
  }
}

TEST_CASE("a loss of huge logits is finite, of NaN is NaN", "[kernels][loss]") {
  CpuContext context(1);
  std::vector<float> huge = {1e30F, -1e30F};
  CHECK(Loss(context, huge, 2, {0}, 1.0F).loss == 0);
  std::vector<float> bad = {NAN, 1};
  CHECK(std::isnan(Loss(context, bad, 2, {1}, 1.0F).loss));
}

TEST_CASE("embedding adds token and position rows, and its gradient is the transpose", "[kernels][embedding]") {
  constexpr std::int64_t kSequences = 3, kLength = 5, kWidth = 67;
  constexpr std::int32_t kVocabulary = 4;  // every token repeats
  const auto tokens = RandomIndices(kSequences * kLength, kVocabulary, 1);
  const auto table = RandomNumbers<double>(kVocabulary * kWidth, 2),
             places = RandomNumbers<double>(kLength * kWidth, 3);
  const auto dy = RandomNumbers<double>(kSequences * kLength * kWidth, 4);
  auto y = Poison<double>(kSequences * kLength * kWidth);
  CpuContext one(1), two(2);
  Embedding(one, EmbeddingArgs<double>{.sequences = kSequences,
                                       .length = kLength,
                                       .width = kWidth,
                                       .tokens = tokens.data(),
                                       .token_table = table.data(),
                                       .position_table = places.data(),
                                       .y = y.data()});
  CHECK(y[kLength * kWidth + 2] == table[static_cast<std::size_t>(tokens[kLength] * kWidth + 2)] + places[2]);
  std::vector<std::vector<double>> results;
  for (CpuContext* context : {&one, &two}) {
    std::vector<double> token_gradient(table.size()), place_gradient = Poison<double>(kLength * kWidth);
    EmbeddingBackward(*context, EmbeddingGradient<double>{.sequences = kSequences,
                                                          .length = kLength,
                                                          .width = kWidth,
                                                          .tokens = tokens.data(),
                                                          .dy = dy.data(),
                                                          .token_gradient = token_gradient.data(),
                                                          .position_gradient = place_gradient.data()});
    // y is linear in both tables, so <dy, y> = <gradients, tables>.
    CHECK(DotOf(token_gradient, table) + DotOf(place_gradient, places) == Approx(DotOf(dy, y)).epsilon(1e-12));
    token_gradient.insert(token_gradient.end(), place_gradient.begin(), place_gradient.end());
    results.push_back(token_gradient);
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("dropout drops the share it is asked to, keeps the mean, and makes the same mask again",
          "[kernels][dropout]") {
  constexpr std::int64_t kCount = 100003;
  CpuContext one(1), three(3);
  const DropoutMask mask{.key = 42, .probability = 0.2};
  std::vector<float> x(kCount, 1), again(kCount, 1), other(kCount, 1), untouched(kCount, 1);
  Dropout(one, mask, kCount, x.data());
  Dropout(three, mask, kCount, again.data());
  CHECK(x == again);
  Dropout(one, {.key = 43, .probability = 0.2}, kCount, other.data());
  CHECK(x != other);
  Dropout(one, {.key = 42, .probability = 0}, kCount, untouched.data());
  CHECK(untouched == std::vector<float>(kCount, 1));
  std::int64_t dropped = 0, strange = 0;
  for (const float v : x) {
    dropped += v == 0;
    strange += v != 0 && v != 1.25F;
  }
  CHECK(strange == 0);
  CHECK(std::fabs(static_cast<double>(dropped) / kCount - 0.2) < 0.005);
  std::vector<double> wide(kCount, 1);
  Dropout(one, mask, kCount, wide.data());
  CHECK(Agree<float>("dropout: y", RelativeDistance(x, wide), 1e-7));
}

TEST_CASE("the backward pass through bias and activation agrees with finite differences", "[kernels][bias]") {
  CpuContext one(1), two(2);
  constexpr std::int64_t kRows = 67, kColumns = 131;
  const auto x = RandomNumbers<double>(kRows * kColumns, 1), dy = RandomNumbers<double>(kRows * kColumns, 2);
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
    std::vector<double> dx = dy, bias_gradient = Poison<double>(kColumns);
    BiasActivationBackward(one, BiasActivationGradient<double>{.rows = kRows,
                                                               .columns = kColumns,
                                                               .activation = activation,
                                                               .x = x.data(),
                                                               .dy = dx.data(),
                                                               .bias_gradient = bias_gradient.data()});
    std::vector<double> expected(x.size()), sums(kColumns);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto f = [&](double v) {
        return activation == Activation::kGelu
                   ? 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)))
               : activation == Activation::kRelu ? std::max(v, 0.0)
                                                 : v;
      };
      expected[i] = dy[i] * (f(x[i] + 1e-6) - f(x[i] - 1e-6)) / 2e-6;
      sums[i % kColumns] += expected[i];
    }
    CHECK(Agree<double>("bias and activation: dx (differences)", RelativeDistance(dx, expected), 1e-8));
    CHECK(Agree<double>("bias and activation: dbias (differences)", RelativeDistance(bias_gradient, sums), 1e-8));

    std::vector<float> x32(x.begin(), x.end()), first(dy.begin(), dy.end()), second = first;
    std::vector<float> bias_one(kColumns, 1), bias_two(kColumns, 1);
    BiasActivationBackward(one, BiasActivationGradient<float>{.rows = kRows,
                                                              .columns = kColumns,
                                                              .activation = activation,
                                                              .x = x32.data(),
                                                              .dy = first.data(),
                                                              .bias_gradient = bias_one.data(),
                                                              .beta = 1});
    BiasActivationBackward(two, BiasActivationGradient<float>{.rows = kRows,
                                                              .columns = kColumns,
                                                              .activation = activation,
                                                              .x = x32.data(),
                                                              .dy = second.data(),
                                                              .bias_gradient = bias_two.data(),
                                                              .beta = 1});
    CHECK(first == second);
    CHECK(bias_one == bias_two);
    for (float& b : bias_one) b -= 1;
    CHECK(Agree<float>("bias and activation: dbias", RelativeDistance(bias_one, bias_gradient), 1e-5));
  }
}

TEST_CASE("gelu and its derivative hold at the far ends", "[kernels][bias]") {
  CHECK(GeluOf(100.0F) == 100.0F);
  CHECK(GeluOf(-100.0F) == 0.0F);
  CHECK(GeluDerivative(100.0F) == 1.0F);
  CHECK(GeluDerivative(-100.0F) == 0.0F);
  CHECK(std::isnan(GeluOf(NAN)));
  CHECK(std::isnan(ReluOf(NAN)));
}

TEST_CASE("axpby does not read y when b is 0", "[kernels]") {
  CpuContext context(2);
  const auto x = RandomNumbers<float>(100001, 1);
  auto y = Poison<float>(100001);
  Axpby(context, 100001, 2.0F, x.data(), 0.0F, y.data());
  Axpby(context, 100001, -1.0F, x.data(), 1.0F, y.data());
  CHECK(y == x);
}

}  // namespace
}  // namespace capstan::kernels
