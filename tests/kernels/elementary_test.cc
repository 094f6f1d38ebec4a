#include "kernels/base/elementary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/catch.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Returns the largest |ours - theirs| / |theirs| over a grid. `theirs` is computed in long double.
template <class Real, class Ours, class Theirs>
double WorstRelativeError(double low, double high, int steps, Ours ours, Theirs theirs) {
  double worst = 0;
  for (int i = 0; i <= steps; ++i) {
    const Real x = static_cast<Real>(low + (high - low) * i / steps);
    const long double expected = theirs(static_cast<long double>(x));
    if (expected == 0) continue;
    const long double error = std::fabs((static_cast<long double>(ours(x)) - expected) / expected);
    worst = std::max(worst, static_cast<double>(error));
  }
  return worst;
}

constexpr double kFloatBound = 2.4e-7;  // 2 ulp
constexpr double kDoubleBound = 1e-15;

TEMPLATE_TEST_CASE("exp, log, tanh and sigmoid are as exact as promised", "[kernels]", float, double) {
  using Real = TestType;
  const double bound = std::is_same_v<Real, float> ? kFloatBound : kDoubleBound;
  const auto exp_l = [](long double x) { return std::exp(x); };
  const auto log_l = [](long double x) { return std::log(x); };
  const auto tanh_l = [](long double x) { return std::tanh(x); };
  CHECK(Agree<Real>("exp", WorstRelativeError<Real>(-86, 88, 200001, Exp<Real>, exp_l), bound));
  CHECK(Agree<Real>("exp", WorstRelativeError<Real>(-1, 1, 200001, Exp<Real>, exp_l), bound));
  CHECK(Agree<Real>("log", WorstRelativeError<Real>(1e-6, 10, 200001, Log<Real>, log_l), bound));
  CHECK(Agree<Real>("log", WorstRelativeError<Real>(0.9, 1.1, 200001, Log<Real>, log_l), bound));
  CHECK(Agree<Real>("log", WorstRelativeError<Real>(1e-30, 1e30, 100001, Log<Real>, log_l), bound));
  CHECK(Agree<Real>("tanh", WorstRelativeError<Real>(-12, 12, 200001, Tanh<Real>, tanh_l), bound));
  CHECK(Agree<Real>("tanh", WorstRelativeError<Real>(-0.01, 0.01, 20001, Tanh<Real>, tanh_l), bound));
  CHECK(Agree<Real>(
      "sigmoid",
      WorstRelativeError<Real>(-80, 40, 200001, Sigmoid<Real>, [](long double x) { return 1 / (1 + std::exp(-x)); }),
      bound));
}

TEMPLATE_TEST_CASE("sin and cos of 2 pi u are as exact as promised", "[kernels]", float, double) {
  using Real = TestType;
  const double bound = std::is_same_v<Real, float> ? 1.8e-7 : 6e-16;
  double worst = 0;
  for (int i = -40000; i <= 40000; ++i) {
    const Real u = static_cast<Real>(i / 10007.0);
    const auto ours = SinCos2Pi(u);
    // The argument is reduced first, because 2 pi u itself would lose digits.
    const double turn = static_cast<double>(u) - std::nearbyint(static_cast<double>(u));
    worst = std::max(worst, std::fabs(static_cast<double>(ours.sine) - std::sin(2 * kPi * turn)));
    worst = std::max(worst, std::fabs(static_cast<double>(ours.cosine) - std::cos(2 * kPi * turn)));
  }
  CHECK(Agree<Real>("sine and cosine of 2 pi u", worst, bound));
  CHECK(SinCos2Pi(Real(0.25)).sine == 1);
  CHECK(SinCos2Pi(Real(0.5)).cosine == -1);
}

TEMPLATE_TEST_CASE("the ends of the range give infinities, zeros and NaN", "[kernels]", float, double) {
  using Real = TestType;
  const Real infinity = std::numeric_limits<Real>::infinity();
  const Real nan = std::numeric_limits<Real>::quiet_NaN();
  CHECK(Exp(infinity) == infinity);
  CHECK(Exp(-infinity) == 0);
  CHECK(Exp(Real(0)) == 1);
  CHECK(std::isnan(Exp(nan)));
  CHECK(Exp(Real(1000)) == infinity);
  CHECK(Exp(Real(-1000)) == 0);
  CHECK(Log(Real(1)) == 0);
  CHECK(Log(Real(0)) == -infinity);
  CHECK(Log(infinity) == infinity);
  CHECK(std::isnan(Log(Real(-1))));
  CHECK(std::isnan(Log(nan)));
  CHECK(Tanh(infinity) == 1);
  CHECK(Tanh(-infinity) == -1);
  CHECK(Tanh(Real(0)) == 0);
  CHECK(std::isnan(Tanh(nan)));
  CHECK(Sigmoid(infinity) == 1);
  CHECK(Sigmoid(-infinity) == 0);
}

// The loops that fill y, z and w vectorise; `volatile` keeps the loop that checks their results scalar.
TEMPLATE_TEST_CASE("a vectorised loop gives the bits of single calls", "[kernels]", float, double) {
  using Real = TestType;
  constexpr int kCount = 4099;
  std::vector<Real> x(kCount), y(kCount), z(kCount), w(kCount);
  for (int i = 0; i < kCount; ++i) x[i] = static_cast<Real>(0.004 * i + 0.001);
  for (int i = 0; i < kCount; ++i) y[i] = Exp(-x[i]);
  for (int i = 0; i < kCount; ++i) z[i] = Log(x[i]);
  for (int i = 0; i < kCount; ++i) w[i] = Tanh(x[i]);
  int different = 0;
  for (int i = 0; i < kCount; ++i) {
    volatile Real value = x[i];
    const Real one = value;
    different += y[i] != Exp(-one) || z[i] != Log(one) || w[i] != Tanh(one);
  }
  CHECK(different == 0);
}

}  // namespace
}  // namespace capstan::kernels
