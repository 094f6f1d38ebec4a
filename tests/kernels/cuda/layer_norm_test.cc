// Layer norm on a device against the CPU in double, on the same inputs.
#include "kernels/layer_norm.h"
#include "tests/catch.h"
#include "tests/kernels/cuda/device.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

constexpr double kFloatBound = 1e-5;  // of results in float

// The shapes have rows for a warp, rows for a block, and rows too long for a block's registers; with rows of whole
// packs and others, aligned and not.
struct Shape {
  std::int64_t rows, columns;
  std::int64_t offset = 0;  // of every array
};
const std::vector<Shape> kShapes = {{1, 1},       {15, 17},   {33, 31},   {70, 257},  {9, 1023},    {256, 384},
                                    {5, 1024, 1}, {11, 1032}, {10, 1537}, {3, 10240}, {17, 384, 1}, {9, 8259, 1}};

template <class T>
struct Normalised {
  std::vector<T> sum, y;
  std::vector<Wide<T>> mean, inverse;
};

template <class T>
Normalised<T> OnDevice(Shape s, const std::vector<T>& a, const std::vector<T>* b, const std::vector<T>& gamma,
                       const std::vector<T>& beta) {
  Device device;
  DeviceArray<T> device_a(device, a, s.offset), device_b(device, b == nullptr ? a : *b, s.offset);
  DeviceArray<T> device_gamma(device, gamma, s.offset), device_beta(device, beta, s.offset);
  DeviceArray<T> sum(device, s.rows * s.columns, s.offset), y(device, s.rows * s.columns, s.offset);
  DeviceArray<Wide<T>> mean(device, s.rows), inverse(device, s.rows);
  ResidualLayerNorm(device.context(), ResidualLayerNormArgs<T>{.rows = s.rows,
                                                               .columns = s.columns,
                                                               .a = device_a.get(),
                                                               .b = b == nullptr ? nullptr : device_b.get(),
                                                               .sum = sum.get(),
                                                               .gamma = device_gamma.get(),
                                                               .beta = device_beta.get(),
                                                               .y = y.get(),
                                                               .mean = mean.get(),
                                                               .inverse_deviation = inverse.get()});
  return {sum.Read(), y.Read(), mean.Read(), inverse.Read()};
}

// Computes the layer norm of `x` in double, where `x` is the sum as it is stored.
Normalised<double> InDouble(Shape s, const std::vector<double>& x, const std::vector<double>& gamma,
                            const std::vector<double>& beta) {
  CpuContext cpu(1);
  Normalised<double> result{x, Poison<double>(s.rows * s.columns), Poison<double>(s.rows), Poison<double>(s.rows)};
  ResidualLayerNorm(cpu, ResidualLayerNormArgs<double>{.rows = s.rows,
                                                       .columns = s.columns,
                                                       .a = x.data(),
                                                       .gamma = gamma.data(),
                                                       .beta = beta.data(),
                                                       .y = result.y.data(),
                                                       .mean = result.mean.data(),
                                                       .inverse_deviation = result.inverse.data()});
  return result;
}

TEMPLATE_TEST_CASE("layer norm on a device is that of double, rounded", "[cuda]", float, Bf16, Half) {
  using T = TestType;
  for (const Shape s : kShapes) {
    CAPTURE(s.rows, s.columns, s.offset);
    const auto a = RandomNumbers<T>(s.rows * s.columns, 1), b = RandomNumbers<T>(s.rows * s.columns, 2);
    const auto gamma = RandomNumbers<T>(s.columns, 3), beta = RandomNumbers<T>(s.columns, 4);
    const auto ours = OnDevice(s, a, &b, gamma, beta), again = OnDevice(s, a, &b, gamma, beta);
    CHECK(SameBits(ours.sum, again.sum));
    CHECK(SameBits(ours.y, again.y));
    std::vector<double> sum = Doubles(a);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(Widen(b[i]));
    CHECK(Agree<T>("layer norm: sum", RelativeDistance(ours.sum, sum), kRounded<T>));
    // The stored sum is the input of the normalisation.
    const auto wide = InDouble(s, Doubles(ours.sum), Doubles(gamma), Doubles(beta));
    CHECK(Agree<T>("layer norm: y", RelativeDistance(ours.y, wide.y), kRounded<T>));
    CHECK(Agree<T>("layer norm: mean", RelativeDistance(ours.mean, wide.mean), kFloatBound));
    CHECK(Agree<T>("layer norm: inverse deviation", RelativeDistance(ours.inverse, wide.inverse), kFloatBound));
    const auto alone = OnDevice<T>(s, a, nullptr, gamma, beta);
    CHECK(Agree<T>("layer norm: y of one input",
                   RelativeDistance(alone.y, InDouble(s, Doubles(a), Doubles(gamma), Doubles(beta)).y), kRounded<T>));
  }
}

template <class T>
struct NormGradients {
  std::vector<T> dx;
  std::vector<Wide<T>> dgamma, dbeta;
};

template <class T>
struct NormInputs {
  explicit NormInputs(Shape s)
      : x(RandomNumbers<T>(s.rows * s.columns, 1)),
        dy(RandomNumbers<T>(s.rows * s.columns, 2)),
        old_dx(RandomNumbers<T>(s.rows * s.columns, 7)),
        gamma(RandomNumbers<T>(s.columns, 3)),
        old_dgamma(RandomNumbers<Wide<T>>(s.columns, 8)),
        old_dbeta(RandomNumbers<Wide<T>>(s.columns, 9)) {}
  std::vector<T> x, dy, old_dx, gamma;
  std::vector<Wide<T>> old_dgamma, old_dbeta;
};

// With keep = 0, dx is written over dy, and the gradients of the parameters are NaN before the call.
template <class T>
NormGradients<T> BackwardOnDevice(Shape s, const NormInputs<T>& in, const Normalised<double>& kept, float keep) {
  Device device;
  const std::vector<float> mean(kept.mean.begin(), kept.mean.end()), inverse(kept.inverse.begin(), kept.inverse.end());
  DeviceArray<T> x(device, in.x, s.offset), dy(device, in.dy, s.offset), gamma(device, in.gamma, s.offset);
  DeviceArray<T> dx(device, in.old_dx, s.offset);
  DeviceArray<float> device_mean(device, mean), device_inverse(device, inverse);
  DeviceArray<float> dgamma(device, keep == 0 ? Poison<float>(s.columns) : in.old_dgamma);
  DeviceArray<float> dbeta(device, keep == 0 ? Poison<float>(s.columns) : in.old_dbeta);
  LayerNormBackward(device.context(), LayerNormGradient<T>{.rows = s.rows,
                                                           .columns = s.columns,
                                                           .x = x.get(),
                                                           .mean = device_mean.get(),
                                                           .inverse_deviation = device_inverse.get(),
                                                           .gamma = gamma.get(),
                                                           .dy = dy.get(),
                                                           .dx = keep == 0 ? dy.get() : dx.get(),
                                                           .dx_beta = keep,
                                                           .gamma_gradient = dgamma.get(),
                                                           .beta_gradient = dbeta.get(),
                                                           .parameter_beta = keep});
  return {keep == 0 ? dy.Read() : dx.Read(), dgamma.Read(), dbeta.Read()};
}

template <class T>
NormGradients<double> BackwardInDouble(Shape s, const NormInputs<T>& in, const Normalised<double>& kept, double keep) {
  CpuContext cpu(1);
  NormGradients<double> result{Doubles(in.old_dx), Doubles(in.old_dgamma), Doubles(in.old_dbeta)};
  const auto x = Doubles(in.x), dy = Doubles(in.dy), gamma = Doubles(in.gamma);
  LayerNormBackward(cpu, LayerNormGradient<double>{.rows = s.rows,
                                                   .columns = s.columns,
                                                   .x = x.data(),
                                                   .mean = kept.mean.data(),
                                                   .inverse_deviation = kept.inverse.data(),
                                                   .gamma = gamma.data(),
                                                   .dy = dy.data(),
                                                   .dx = result.dx.data(),
                                                   .dx_beta = keep,
                                                   .gamma_gradient = result.dgamma.data(),
                                                   .beta_gradient = result.dbeta.data(),
                                                   .parameter_beta = keep});
  return result;
}

TEMPLATE_TEST_CASE("gradients of layer norm on a device are those of double, rounded", "[cuda]", float, Bf16, Half) {
  using T = TestType;
  for (const Shape s : kShapes) {
    if (s.columns == 1) continue;  // a row of one number has no gradient
    const NormInputs<T> in(s);
    const auto kept = InDouble(s, Doubles(in.x), Doubles(in.gamma), Doubles(in.gamma));
    for (const float keep : {0.0F, 0.5F}) {
      CAPTURE(s.rows, s.columns, s.offset, keep);
      const auto ours = BackwardOnDevice(s, in, kept, keep), again = BackwardOnDevice(s, in, kept, keep);
      CHECK(SameBits(ours.dx, again.dx));
      CHECK(SameBits(ours.dgamma, again.dgamma));
      CHECK(SameBits(ours.dbeta, again.dbeta));
      const auto wide = BackwardInDouble(s, in, kept, static_cast<double>(keep));
      CHECK(Agree<T>("layer norm: dx", RelativeDistance(ours.dx, wide.dx), kRounded<T>));
      CHECK(Agree<T>("layer norm: dgamma", RelativeDistance(ours.dgamma, wide.dgamma), kFloatBound));
      CHECK(Agree<T>("layer norm: dbeta", RelativeDistance(ours.dbeta, wide.dbeta), kFloatBound));
    }
  }
}

TEST_CASE("layer norm on a device has the same bits in aligned and in unaligned arrays", "[cuda]") {
  const Shape aligned{9, 1024, 0}, unaligned{9, 1024, 1};
  const NormInputs<Bf16> in(aligned);
  const auto x = OnDevice<Bf16>(aligned, in.x, &in.dy, in.gamma, in.gamma);
  CHECK(SameBits(x.y, OnDevice<Bf16>(unaligned, in.x, &in.dy, in.gamma, in.gamma).y));
  const auto kept = InDouble(aligned, Doubles(in.x), Doubles(in.gamma), Doubles(in.gamma));
  const auto ours = BackwardOnDevice(aligned, in, kept, 0), other = BackwardOnDevice(unaligned, in, kept, 0);
  CHECK(SameBits(ours.dx, other.dx));
  CHECK(SameBits(ours.dgamma, other.dgamma));
}

}  // namespace
}  // namespace capstan::kernels
