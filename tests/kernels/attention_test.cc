#include "kernels/attention.h"

#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "tests/catch.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

std::int64_t Elements(const AttentionShape& s) { return s.sequences * s.length * s.heads * s.head_width; }

template <class Real>
struct Forward {
  Forward(CpuContext& context, const AttentionShape& s, const DropoutMask& dropout, const std::vector<Real>& qkv)
      : out(Poison<Real>(Elements(s))), log_sum(Poison<Wide<Real>>(s.sequences * s.heads * s.length)) {
    CausalAttention(
        context, AttentionArgs<Real>{
                     .shape = s, .dropout = dropout, .qkv = qkv.data(), .out = out.data(), .log_sum = log_sum.data()});
  }
  std::vector<Real> out;
  std::vector<Wide<Real>> log_sum;
};

template <class Real>
std::vector<Real> Backward(CpuContext& context, const AttentionShape& s, const DropoutMask& dropout,
                           const std::vector<Real>& qkv, const Forward<Real>& forward, const std::vector<Real>& dout) {
  std::vector<Real> dqkv = Poison<Real>(3 * Elements(s));
  CausalAttentionBackward(context, AttentionGradient<Real>{.shape = s,
                                                           .dropout = dropout,
                                                           .qkv = qkv.data(),
                                                           .out = forward.out.data(),
                                                           .log_sum = forward.log_sum.data(),
                                                           .dout = dout.data(),
                                                           .dqkv = dqkv.data()});
  return dqkv;
}

// Computes attention straight from its definition.
std::vector<double> Definition(const AttentionShape& s, const DropoutMask& dropout, const std::vector<double>& qkv) {
  std::vector<double> out(static_cast<std::size_t>(Elements(s)));
  const auto at = [&](std::int64_t b, std::int64_t t, std::int64_t part, std::int64_t h) {
    return qkv.data() + (((b * s.length + t) * 3 + part) * s.heads + h) * s.head_width;
  };
  const std::int64_t stride = (s.length + 63) / 64 * 64;
  for (std::int64_t b = 0; b < s.sequences; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.length; ++i) {
        std::vector<double> p(static_cast<std::size_t>(i + 1));
        double sum = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::int64_t d = 0; d < s.head_width; ++d) score += at(b, i, 0, h)[d] * at(b, j, 1, h)[d];
          p[static_cast<std::size_t>(j)] = std::exp(score / std::sqrt(static_cast<double>(s.head_width)));
          sum += p[static_cast<std::size_t>(j)];
        }
        for (std::int64_t j = 0; j <= i; ++j) {
          const auto element = static_cast<std::uint64_t>(((b * s.heads + h) * s.length + i) * stride + j);
          const std::uint32_t bits = Philox(dropout.key, element / 4, 0)[element % 4];
          const bool dropped = bits < static_cast<std::uint32_t>(dropout.probability * 0x1p32);
          const double weight = dropped ? 0 : p[static_cast<std::size_t>(j)] / sum / (1 - dropout.probability);
          for (std::int64_t d = 0; d < s.head_width; ++d) {
            out[static_cast<std::size_t>(((b * s.length + i) * s.heads + h) * s.head_width + d)] +=
                weight * at(b, j, 2, h)[d];
          }
        }
      }
    }
  }
  return out;
}

TEST_CASE("causal attention follows its definition", "[kernels][attention]") {
  CpuContext context(1);
  for (const double probability : {0.0, 0.3}) {
    for (const AttentionShape s : {AttentionShape{1, 1, 1, 1}, {2, 7, 3, 5}, {1, 65, 2, 8}, {2, 131, 1, 16}}) {
      const DropoutMask dropout{.key = 77, .probability = probability};
      const auto qkv = RandomNumbers<double>(3 * Elements(s), 1);
      const Forward<double> forward(context, s, dropout, qkv);
      CHECK(Agree<double>("attention: out", RelativeDistance(forward.out, Definition(s, dropout, qkv)), 1e-13));
      const std::vector<float> narrow(qkv.begin(), qkv.end());
      CHECK(Agree<float>("attention: out",
                         RelativeDistance(Forward<float>(context, s, dropout, narrow).out, forward.out), 1e-6));
    }
  }
}

TEST_CASE("the gradient of attention is that of finite differences", "[kernels][attention]") {
  CpuContext context(1);
  for (const double probability : {0.0, 0.3}) {
    for (const AttentionShape s : {AttentionShape{1, 1, 1, 1}, {2, 7, 2, 3}, {1, 67, 1, 2}}) {
      const DropoutMask dropout{.key = 5, .probability = probability};
      const auto qkv = RandomNumbers<double>(3 * Elements(s), 2);
      const auto dout = RandomNumbers<double>(Elements(s), 3);
      const auto numeric = NumericGradient(
          qkv, [&](const std::vector<double>& x) { return DotOf(Forward<double>(context, s, dropout, x).out, dout); });
      const Forward<double> forward(context, s, dropout, qkv);
      const auto gradient = Backward(context, s, dropout, qkv, forward, dout);
      CAPTURE(s.length, probability);
      CHECK(DotOf(numeric, numeric) > 1e-3);
      CHECK(Agree<double>("attention: dqkv (differences)", RelativeDistance(gradient, numeric), 1e-7));
    }
  }
}

TEST_CASE("attention of the size that is trained passes the adjoint test and does not see threads",
          "[kernels][attention]") {
  const AttentionShape s{2, 200, 2, 32};
  const DropoutMask dropout{.key = 9, .probability = 0.1};
  CpuContext one(1), two(2);
  const auto qkv = RandomNumbers<double>(3 * Elements(s), 4);
  const auto direction = RandomNumbers<double>(3 * Elements(s), 5);
  const auto dout = RandomNumbers<double>(Elements(s), 6);
  const auto moved = [&](double step) {
    std::vector<double> x = qkv;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += step * direction[i];
    return DotOf(Forward<double>(one, s, dropout, x).out, dout);
  };
  const double slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
  const Forward<double> forward(one, s, dropout, qkv);
  const auto gradient = Backward(one, s, dropout, qkv, forward, dout);
  CHECK(std::fabs(DotOf(gradient, direction) - slope) < 1e-6 * std::fabs(slope));

  const std::vector<float> narrow(qkv.begin(), qkv.end()), narrow_dout(dout.begin(), dout.end());
  const Forward<float> first(one, s, dropout, narrow), second(two, s, dropout, narrow);
  CHECK(first.out == second.out);
  CHECK(first.log_sum == second.log_sum);
  const auto gradient_one = Backward(one, s, dropout, narrow, first, narrow_dout);
  CHECK(gradient_one == Backward(two, s, dropout, narrow, first, narrow_dout));
  CHECK(Agree<float>("attention: dqkv", RelativeDistance(gradient_one, gradient), 3e-6));
}

TEMPLATE_TEST_CASE("attention on 16-bit numbers follows that of double on the same numbers", "[kernels][attention]",
                   Bf16, Half) {
  using T = TestType;
  CpuContext one(1), two(2);
  for (const double probability : {0.0, 0.3}) {
    for (const AttentionShape s : {AttentionShape{1, 1, 1, 1}, {2, 15, 3, 17}, {1, 257, 2, 31}, {2, 131, 1, 33}}) {
      CAPTURE(s.length, probability);
      const DropoutMask dropout{.key = 7, .probability = probability};
      const auto qkv = RandomNumbers<T>(3 * Elements(s), 1), dout = RandomNumbers<T>(Elements(s), 2);
      const Forward<T> ours(one, s, dropout, qkv), again(two, s, dropout, qkv);
      CHECK(SameBits(ours.out, again.out));
      CHECK(SameBits(ours.log_sum, again.log_sum));
      const Forward<double> wide(one, s, dropout, Doubles(qkv));
      CHECK(Agree<T>("attention: out", RelativeDistance(ours.out, wide.out), kRounded<T>));
      CHECK(Agree<float>("attention: log sum", RelativeDistance(ours.log_sum, wide.log_sum), 1e-5));
      const auto gradient = Backward(one, s, dropout, qkv, ours, dout);
      CHECK(SameBits(gradient, Backward(two, s, dropout, qkv, ours, dout)));
      const auto expected = Backward(one, s, dropout, Doubles(qkv), wide, Doubles(dout));
      CHECK(Agree<T>("attention: dqkv", RelativeDistance(gradient, expected), kRounded<T>));
    }
  }
}

}  // namespace
}  // namespace capstan::kernels
