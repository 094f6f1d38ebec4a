// The row kernels on 16-bit numbers against the same kernels in double on the same inputs: stored results are rounded
// once, results in Wide<T> are as accurate as in float, and no bit depends on threads.
#include <algorithm>
#include <vector>

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

constexpr double kFloatBound = 1e-5;  // of results in float

struct Shape {
  std::int64_t rows, columns;
};
const std::vector<Shape> kShapes = {{1, 1}, {15, 17}, {33, 31}, {70, 257}};

template <class T>
struct Normalised {
  Normalised(int threads, Shape s, const std::vector<T>& a, const std::vector<T>* b, const std::vector<T>& gamma,
             const std::vector<T>& beta)
      : sum(Poison<T>(s.rows * s.columns)),
        y(Poison<T>(s.rows * s.columns)),
        mean(Poison<Wide<T>>(s.rows)),
        inverse(Poison<Wide<T>>(s.rows)) {
    CpuContext context(threads);
    ResidualLayerNorm(context, ResidualLayerNormArgs<T>{.rows = s.rows,
                                                        .columns = s.columns,
                                                        .a = a.data(),
                                                        .b = b == nullptr ? nullptr : b->data(),
                                                        .sum = sum.data(),
                                                        .gamma = gamma.data(),
                                                        .beta = beta.data(),
                                                        .y = y.data(),
                                                        .mean = mean.data(),
                                                        .inverse_deviation = inverse.data()});
  }
  std::vector<T> sum, y;
  std::vector<Wide<T>> mean, inverse;
};

TEMPLATE_TEST_CASE("layer norm of 16-bit numbers is that of double, rounded", "[kernels][16bit]", float, Bf16, Half) {
  using T = TestType;
  for (const Shape s : kShapes) {
    const auto a = RandomNumbers<T>(s.rows * s.columns, 1), b = RandomNumbers<T>(s.rows * s.columns, 2);
    const auto gamma = RandomNumbers<T>(s.columns, 3), beta = RandomNumbers<T>(s.columns, 4);
    const Normalised<T> ours(1, s, a, &b, gamma, beta), again(2, s, a, &b, gamma, beta);
    CHECK(SameBits(ours.sum, again.sum));
    CHECK(SameBits(ours.y, again.y));
    std::vector<double> sum = Doubles(a);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(Widen(b[i]));
    CHECK(Agree<T>("layer norm: sum", RelativeDistance(ours.sum, sum), kRounded<T>));
    // The stored sum is the input of the normalisation.
    const Normalised<double> wide(1, s, Doubles(ours.sum), nullptr, Doubles(gamma), Doubles(beta));
    CHECK(Agree<T>("layer norm: y", RelativeDistance(ours.y, wide.y), kRounded<T>));
    CHECK(Agree<T>("layer norm: mean", RelativeDistance(ours.mean, wide.mean), kFloatBound));
    CHECK(Agree<T>("layer norm: inverse deviation", RelativeDistance(ours.inverse, wide.inverse), kFloatBound));
    const Normalised<T> alone(1, s, a, nullptr, gamma, beta);
    CHECK(RelativeDistance(alone.y, Normalised<double>(1, s, Doubles(a), nullptr, Doubles(gamma), Doubles(beta)).y) <=
          kRounded<T>);
  }
}

template <class T>
struct NormGradients {
  NormGradients(int threads, Shape s, const std::vector<T>& x, const Normalised<T>& kept, const std::vector<T>& gamma,
                const std::vector<T>& dy, Wide<T> keep)
      : dx(keep == 0 ? Poison<T>(s.rows * s.columns) : RandomNumbers<T>(s.rows * s.columns, 7)),
        dgamma(keep == 0 ? Poison<Wide<T>>(s.columns) : RandomNumbers<Wide<T>>(s.columns, 8)),
        dbeta(keep == 0 ? Poison<Wide<T>>(s.columns) : RandomNumbers<Wide<T>>(s.columns, 9)) {
    CpuContext context(threads);
    LayerNormBackward(context, LayerNormGradient<T>{.rows = s.rows,
                                                    .columns = s.columns,
                                                    .x = x.data(),
                                                    .mean = kept.mean.data(),
                                                    .inverse_deviation = kept.inverse.data(),
                                                    .gamma = gamma.data(),
                                                    .dy = dy.data(),
                                                    .dx = dx.data(),
                                                    .dx_beta = keep,
                                                    .gamma_gradient = dgamma.data(),
                                                    .beta_gradient = dbeta.data(),
                                                    .parameter_beta = keep});
  }
  std::vector<T> dx;
  std::vector<Wide<T>> dgamma, dbeta;
};

TEMPLATE_TEST_CASE("gradients of layer norm of 16-bit numbers are those of double, rounded", "[kernels][16bit]", float,
                   Bf16, Half) {
  using T = TestType;
  for (const Shape s : kShapes) {
    if (s.columns == 1) continue;  // a row of one number has no gradient
    const auto x = RandomNumbers<T>(s.rows * s.columns, 1), dy = RandomNumbers<T>(s.rows * s.columns, 2);
    const auto gamma = RandomNumbers<T>(s.columns, 3), beta = RandomNumbers<T>(s.columns, 4);
    const Normalised<T> kept(1, s, x, nullptr, gamma, beta);
    const Normalised<double> wide_kept(1, s, Doubles(x), nullptr, Doubles(gamma), Doubles(beta));
    for (const int keep : {0, 1}) {
      const auto wide_keep = static_cast<Wide<T>>(keep);
      const NormGradients<T> ours(1, s, x, kept, gamma, dy, wide_keep), again(2, s, x, kept, gamma, dy, wide_keep);
      CHECK(SameBits(ours.dx, again.dx));
      CHECK(SameBits(ours.dgamma, again.dgamma));
      CHECK(SameBits(ours.dbeta, again.dbeta));
      NormGradients<double> wide(1, s, Doubles(x), wide_kept, Doubles(gamma), Doubles(dy), 0);
      if (keep == 1) {
        const auto add = [](std::vector<double>& to, const std::vector<double>& old) {
          for (std::size_t i = 0; i < to.size(); ++i) to[i] += old[i];
        };
        add(wide.dx, Doubles(RandomNumbers<T>(s.rows * s.columns, 7)));
        add(wide.dgamma, Doubles(RandomNumbers<Wide<T>>(s.columns, 8)));
        add(wide.dbeta, Doubles(RandomNumbers<Wide<T>>(s.columns, 9)));
      }
      CAPTURE(s.rows, s.columns, keep);
      CHECK(Agree<T>("layer norm: dx", RelativeDistance(ours.dx, wide.dx), kRounded<T>));
      CHECK(Agree<T>("layer norm: dgamma", RelativeDistance(ours.dgamma, wide.dgamma), kFloatBound));
      CHECK(Agree<T>("layer norm: dbeta", RelativeDistance(ours.dbeta, wide.dbeta), kFloatBound));
    }
  }
}

template <class T>
LossResult Loss(int threads, Shape s, std::vector<T>& logits, const std::vector<std::int32_t>& targets) {
  CpuContext context(threads);
  LossResult result;
  SoftmaxCrossEntropy(context, SoftmaxCrossEntropyArgs<T>{.rows = s.rows,
                                                          .classes = s.columns,
                                                          .stride = s.columns,
                                                          .logits = logits.data(),
                                                          .targets = targets.data(),
                                                          .gradient_scale = Wide<T>(0.75),
                                                          .result = &result});
  return result;
}

TEMPLATE_TEST_CASE("the loss of 16-bit logits is that of double, its gradient rounded", "[kernels][16bit]", float, Bf16,
                   Half) {
  using T = TestType;
  for (const Shape s : kShapes) {
    const auto targets = RandomIndices(s.rows, static_cast<std::int32_t>(s.columns), 1);
    const auto logits = RandomNumbers<T>(s.rows * s.columns, 2);
    std::vector<T> ours = logits, again = logits;
    std::vector<double> wide = Doubles(logits);
    const LossResult loss = Loss(1, s, ours, targets), expected = Loss(1, s, wide, targets);
    CHECK(Loss(2, s, again, targets).loss == loss.loss);
    CHECK(SameBits(ours, again));
    CHECK(loss.loss == Approx(expected.loss).epsilon(1e-6).margin(1e-6));
    CHECK(loss.correct == expected.correct);
    CHECK(Agree<T>("classifier: gradient of the logits", RelativeDistance(ours, wide), kRounded<T>));
  }
}

TEMPLATE_TEST_CASE("an embedding of 16-bit numbers is rounded once, its gradients are wide", "[kernels][16bit]", float,
                   Bf16, Half) {
  using T = TestType;
  constexpr std::int32_t kVocabulary = 4;
  for (const Shape s : kShapes) {  // rows are positions, two sequences
    const auto tokens = RandomIndices(2 * s.rows, kVocabulary, 1);
    const auto table = RandomNumbers<T>(kVocabulary * s.columns, 2), places = RandomNumbers<T>(s.rows * s.columns, 3);
    const auto dy = RandomNumbers<T>(2 * s.rows * s.columns, 4);
    const auto forward = [&](int threads) {
      CpuContext context(threads);
      auto y = Poison<T>(2 * s.rows * s.columns);
      Embedding(context, EmbeddingArgs<T>{.sequences = 2,
                                          .length = s.rows,
                                          .width = s.columns,
                                          .tokens = tokens.data(),
                                          .token_table = table.data(),
                                          .position_table = places.data(),
                                          .y = y.data()});
      return y;
    };
    const auto backward = [&](int threads) {
      CpuContext context(threads);
      auto gradients = RandomNumbers<Wide<T>>(kVocabulary * s.columns, 5);  // are added to
      const auto position_gradients = static_cast<std::int64_t>(gradients.size());
      gradients.resize(gradients.size() + places.size(), std::numeric_limits<Wide<T>>::quiet_NaN());
      EmbeddingBackward(context, EmbeddingGradient<T>{.sequences = 2,
                                                      .length = s.rows,
                                                      .width = s.columns,
                                                      .tokens = tokens.data(),
                                                      .dy = dy.data(),
                                                      .token_gradient = gradients.data(),
                                                      .position_gradient = gradients.data() + position_gradients});
      return gradients;
    };
    std::vector<double> y, gradients = Doubles(RandomNumbers<Wide<T>>(kVocabulary * s.columns, 5));
    gradients.resize(gradients.size() + places.size());
    for (std::int64_t row = 0; row < 2 * s.rows; ++row) {
      for (std::int64_t j = 0; j < s.columns; ++j) {
        const auto token = static_cast<std::size_t>(tokens[static_cast<std::size_t>(row)] * s.columns + j);
        const auto place = static_cast<std::size_t>(row % s.rows * s.columns + j);
        const double slope = static_cast<double>(Widen(dy[static_cast<std::size_t>(row * s.columns + j)]));
        y.push_back(static_cast<double>(Widen(table[token])) + static_cast<double>(Widen(places[place])));
        gradients[token] += slope;
        gradients[table.size() + place] += slope;
      }
    }
    CHECK(Agree<T>("embedding: y", RelativeDistance(forward(1), y), kRounded<T>));
    CHECK(SameBits(forward(1), forward(2)));
    CHECK(Agree<T>("embedding: dtable", RelativeDistance(backward(1), gradients), kFloatBound));
    CHECK(SameBits(backward(1), backward(2)));
  }
}

TEMPLATE_TEST_CASE("dropout and axpby round once", "[kernels][16bit]", float, Bf16, Half) {
  using T = TestType;
  CpuContext one(1), two(2);
  const DropoutMask mask{.key = 5, .probability = 0.3};
  for (const std::int64_t count : {1, 15, 33, 257, 70001}) {
    const auto x = RandomNumbers<T>(count, 1), y = RandomNumbers<T>(count, 2);
    std::vector<T> dropped = x, again = x;
    Dropout(one, mask, count, dropped.data());
    Dropout(two, mask, count, again.data());
    CHECK(SameBits(dropped, again));
    std::vector<double> wide = Doubles(x);
    Dropout(one, mask, count, wide.data());
    CHECK(Agree<T>("dropout: y", RelativeDistance(dropped, wide), kRounded<T>));
    CHECK(std::count(wide.begin(), wide.end(), 0.0) == [&] {
      const auto values = Doubles(dropped);
      return std::count(values.begin(), values.end(), 0.0);
    }());

    std::vector<double> sum;
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum.push_back(1.5 * static_cast<double>(Widen(x[i])) - 0.25 * static_cast<double>(Widen(y[i])));
    }
    std::vector<T> result = y, fresh = Poison<T>(count);
    Axpby(two, count, Wide<T>(1.5), x.data(), Wide<T>(-0.25), result.data());
    CHECK(Agree<T>("axpby: y", RelativeDistance(result, sum), kRounded<T>));
    Axpby(one, count, Wide<T>(1), x.data(), Wide<T>(0), fresh.data());
    CHECK(SameBits(fresh, x));
  }
}

TEMPLATE_TEST_CASE("the backward pass through bias and activation of 16-bit numbers is that of double, rounded",
                   "[kernels][16bit]", float, Bf16, Half) {
  using T = TestType;
  for (const Shape s : kShapes) {
    const auto x = RandomNumbers<T>(s.rows * s.columns, 1), dy = RandomNumbers<T>(s.rows * s.columns, 2);
    for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
      const auto run = [&](int threads, auto x_of, auto dx, auto bias_gradient) {
        using U = typename decltype(x_of)::value_type;
        CpuContext context(threads);
        BiasActivationBackward(context, BiasActivationGradient<U>{.rows = s.rows,
                                                                  .columns = s.columns,
                                                                  .activation = activation,
                                                                  .x = x_of.data(),
                                                                  .dy = dx.data(),
                                                                  .bias_gradient = bias_gradient.data(),
                                                                  .beta = Wide<U>(0.5)});
        return std::pair(dx, bias_gradient);
      };
      const auto old = RandomNumbers<Wide<T>>(s.columns, 3);
      const auto ours = run(1, x, dy, old), again = run(2, x, dy, old);
      CHECK(SameBits(ours.first, again.first));
      CHECK(SameBits(ours.second, again.second));
      const auto wide = run(1, Doubles(x), Doubles(dy), Doubles(old));
      CAPTURE(s.rows, s.columns);
      CHECK(Agree<T>("bias and activation: dx", RelativeDistance(ours.first, wide.first), kRounded<T>));
      CHECK(Agree<T>("bias and activation: dbias", RelativeDistance(ours.second, wide.second), kFloatBound));
    }
  }
}

}  // namespace
}  // namespace capstan::kernels
