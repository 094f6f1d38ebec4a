// Products on a device, with all epilogues of cuBLASLt, against the CPU in double.
#include "kernels/matmul.h"
#include "kernels/linear_gradient.h"
#include "kernels/product_epilogues.h"
#include "tests/catch.h"
#include "tests/kernels/cuda/start_products.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

struct Shape {
  std::int64_t m, n, k;
  std::int64_t offset = 0;
};

// Shapes whose arrays and rows have the alignment that cuBLASLt prefers, and others.
const std::vector<Shape> kShapes = {{1, 1, 1},    {15, 17, 31},   {33, 257, 15},
                                    {64, 48, 40}, {70, 384, 256}, {64, 48, 40, 1}};

// Describes the operand. With Transpose::kYes, `data` holds the matrix column by column.
template <class T>
Operand<T> OperandOf(const T* data, std::int64_t rows, std::int64_t columns, Transpose transpose) {
  return {data, transpose == Transpose::kYes ? rows : columns, transpose};
}

struct Asked {
  Transpose a = Transpose::kNo, b = Transpose::kNo;
  bool bias = false;
  Activation activation = Activation::kNone;
  bool in_place = true;
  float beta = 0;
};

// C, and the result of the activation.
template <class T>
using Made = std::pair<std::vector<T>, std::vector<T>>;

template <class T, class Out>
struct Arrays {
  Arrays(const Shape& s, const Asked& asked)
      : a(RandomNumbers<T>(s.m * s.k, 1)),
        b(RandomNumbers<T>(s.k * s.n, 2)),
        bias(RandomNumbers<T>(s.n, 3)),
        c(asked.beta == 0 ? Poison<Out>(s.m * s.n) : RandomNumbers<Out>(s.m * s.n, 4)) {}
  std::vector<T> a, b, bias;
  std::vector<Out> c;
};

template <class T, class Out>
Product<T, Out> ProductOf(const Shape& s, const Asked& asked, const T* a, const T* b, const T* bias, Out* c,
                          Out* activated) {
  return {.m = s.m,
          .n = s.n,
          .k = s.k,
          .a = OperandOf(a, s.m, s.k, asked.a),
          .b = OperandOf(b, s.k, s.n, asked.b),
          .c = c,
          .c_stride = s.n,
          .beta = static_cast<Wide<T>>(asked.beta),
          .bias = asked.bias ? bias : nullptr,
          .activation = asked.activation,
          .activated = asked.activation == Activation::kNone ? nullptr
                       : asked.in_place                      ? c
                                                             : activated};
}

template <class T, class Out>
Made<Out> OnDevice(Device& device, const Shape& s, const Asked& asked, const Arrays<T, Out>& arrays) {
  DeviceArray<T> a(device, arrays.a, s.offset), b(device, arrays.b, s.offset), bias(device, arrays.bias, s.offset);
  DeviceArray<Out> c(device, arrays.c, s.offset), activated(device, s.m * s.n, s.offset);
  Matmul(device.context(), ProductOf<T, Out>(s, asked, a.get(), b.get(), bias.get(), c.get(), activated.get()));
  return {c.Read(), activated.Read()};
}

template <class T, class Out>
void CheckProduct(Device& device, const Shape& s, const Asked& asked) {
  CAPTURE(s.m, s.n, s.k, s.offset, asked.a, asked.b, asked.bias, static_cast<int>(asked.activation), asked.in_place,
          asked.beta);
  const Arrays<T, Out> arrays(s, asked);
  const Made<Out> ours = OnDevice(device, s, asked, arrays), again = OnDevice(device, s, asked, arrays);
  CHECK(SameBits(ours.first, again.first));
  CpuContext cpu(1);
  std::vector<double> c = Doubles(arrays.c), activated(c.size());
  Matmul(cpu, ProductOf<double, double>(s, asked, Doubles(arrays.a).data(), Doubles(arrays.b).data(),
                                        Doubles(arrays.bias).data(), c.data(), activated.data()));
  CHECK(Agree<T>("product: C", RelativeDistance(ours.first, c), 2 * kRounded<Out>));
  if (asked.in_place) return;
  CHECK(SameBits(ours.second, again.second));
  CHECK(Agree<T>("product: activated", RelativeDistance(ours.second, activated), 2 * kRounded<Out>));
}

TEMPLATE_TEST_CASE("products on a device are those of double, with bias, activation and what was there", "[cuda]",
                   float, Bf16, Half) {
  using T = TestType;
  Device device;
  StartProducts(device);
  constexpr Transpose kYes = Transpose::kYes;
  for (const Shape& s : kShapes) {
    for (const Asked& asked :
         std::vector<Asked>{{},
                            {.a = kYes, .beta = 0.5F},
                            {.b = kYes, .bias = true},
                            {.a = kYes, .b = kYes, .bias = true, .activation = Activation::kRelu},
                            {.b = kYes, .bias = true, .activation = Activation::kGelu},
                            {.b = kYes, .bias = true, .activation = Activation::kRelu, .in_place = false},
                            {.b = kYes, .bias = true, .activation = Activation::kGelu, .in_place = false},
                            {.b = kYes, .activation = Activation::kGelu, .in_place = false, .beta = 0.5F}}) {
      CheckProduct<T, T>(device, s, asked);
    }
    CheckProduct<T, Wide<T>>(device, s, {.a = kYes, .beta = 1});
  }
}

TEMPLATE_TEST_CASE("a bias is added whether cuBLASLt has a way to or not", "[cuda]", float, Bf16, Half) {
  Device device;
  StartProducts(device);
  for (const Shape& s : std::vector<Shape>{{90, 33, 1}, {90, 1, 33}, {1, 33, 9}}) {
    CheckProduct<TestType, TestType>(device, s, {.b = Transpose::kYes, .bias = true});
    CheckProduct<TestType, TestType>(
        device, s, {.b = Transpose::kYes, .bias = true, .activation = Activation::kRelu, .in_place = false});
  }
}

// The gradients of a linear layer with x [m, n] and y [m, k]: of the values before the activation, of the weights, and
// of the bias.
template <class T>
struct Gradients {
  std::vector<T> dy;
  std::vector<Wide<T>> weight, bias;
};

struct Backward {
  Activation activation;
  bool incoming;  // a product computes dy
  float beta;
};

template <class T>
struct LinearArrays {
  LinearArrays(const Shape& s, float beta)
      : x(RandomNumbers<T>(s.m * s.n, 1)),
        y(RandomNumbers<T>(s.m * s.k, 2)),
        dy(RandomNumbers<T>(s.m * s.k, 3)),
        next_dy(RandomNumbers<T>(s.m * s.n, 4)),
        next_weight(RandomNumbers<T>(s.n * s.k, 5)),
        weight(beta == 0 ? Poison<Wide<T>>(s.k * s.n) : RandomNumbers<Wide<T>>(s.k * s.n, 6)),
        bias(beta == 0 ? Poison<Wide<T>>(s.k) : RandomNumbers<Wide<T>>(s.k, 7)) {}
  std::vector<T> x, y, dy, next_dy, next_weight;
  std::vector<Wide<T>> weight, bias;
};

template <class T>
LinearGradient<T> GradientOf(const Shape& s, const Backward& asked, const T* x, const T* y, T* dy, Wide<T>* weight,
                             Wide<T>* bias) {
  return {.rows = s.m,
          .in = s.n,
          .out = s.k,
          .x = x,
          .activation = asked.activation,
          .y = asked.activation == Activation::kNone ? nullptr : y,
          .dy = dy,
          .weight_gradient = weight,
          .bias_gradient = bias,
          .beta = static_cast<Wide<T>>(asked.beta)};
}

template <class T>
Product<T> Incoming(const Shape& s, const T* next_dy, const T* next_weight, T* dy) {
  return {.m = s.m, .n = s.k, .k = s.n, .a = {next_dy, s.n}, .b = {next_weight, s.k}, .c = dy, .c_stride = s.k};
}

template <class T>
Gradients<T> BackwardOnDevice(Device& device, const Shape& s, const Backward& asked, const LinearArrays<T>& arrays) {
  DeviceArray<T> x(device, arrays.x, s.offset), y(device, arrays.y, s.offset), next_dy(device, arrays.next_dy),
      next_weight(device, arrays.next_weight, s.offset);
  DeviceArray<T> dy(device, asked.incoming ? Poison<T>(s.m * s.k) : arrays.dy, s.offset);
  DeviceArray<Wide<T>> weight(device, arrays.weight, s.offset), bias(device, arrays.bias, s.offset);
  const auto gradient = GradientOf<T>(s, asked, x.get(), y.get(), dy.get(), weight.get(), bias.get());
  if (asked.incoming) {
    LinearBackward(device.context(), gradient, Incoming<T>(s, next_dy.get(), next_weight.get(), dy.get()));
  } else {
    LinearBackward(device.context(), gradient);
  }
  return {dy.Read(), weight.Read(), bias.Read()};
}

template <class T>
void CheckBackward(Device& device, const Shape& s, const Backward& asked) {
  CAPTURE(s.m, s.n, s.k, s.offset, static_cast<int>(asked.activation), asked.incoming, asked.beta);
  const LinearArrays<T> arrays(s, asked.beta);
  const auto ours = BackwardOnDevice(device, s, asked, arrays), again = BackwardOnDevice(device, s, asked, arrays);
  CHECK(SameBits(ours.dy, again.dy));
  CHECK(SameBits(ours.weight, again.weight));
  CHECK(SameBits(ours.bias, again.bias));
  CpuContext cpu(1);
  const auto x = Doubles(arrays.x), y = Doubles(arrays.y), next_dy = Doubles(arrays.next_dy),
             next_weight = Doubles(arrays.next_weight);
  Gradients<double> wide{Doubles(arrays.dy), Doubles(arrays.weight), Doubles(arrays.bias)};
  const auto gradient =
      GradientOf<double>(s, asked, x.data(), y.data(), wide.dy.data(), wide.weight.data(), wide.bias.data());
  if (asked.incoming) {
    LinearBackward(cpu, gradient, Incoming<double>(s, next_dy.data(), next_weight.data(), wide.dy.data()));
  } else {
    LinearBackward(cpu, gradient);
  }
  // dy is rounded after the product and again after the activation; its sums contain both errors.
  const double tolerance = 4 * kRounded<T>;
  CHECK(Agree<T>("linear: dy", RelativeDistance(ours.dy, wide.dy), tolerance));
  CHECK(Agree<T>("linear: dweight", RelativeDistance(ours.weight, wide.weight), tolerance));
  CHECK(Agree<T>("linear: dbias", RelativeDistance(ours.bias, wide.bias), tolerance));
}

TEMPLATE_TEST_CASE("the backward pass through a linear layer on a device is that of double, whatever is fused",
                   "[cuda]", float, Bf16, Half) {
  Device device;
  StartProducts(device);
  for (const Shape& s : kShapes) {
    for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
      for (const bool incoming : {false, true}) {
        for (const float beta : {0.0F, 0.5F}) CheckBackward<TestType>(device, s, {activation, incoming, beta});
      }
    }
  }
}

TEMPLATE_TEST_CASE("where cuBLASLt has no way to do both, nothing is enqueued", "[cuda]", float, Bf16, Half) {
  using T = TestType;
  constexpr std::int64_t kRows = 16, kOdd = 12;  // the stride of `before` must be a multiple of 8
  Device device;
  StartProducts(device);
  DeviceArray<T> a(device, RandomNumbers<T>(kRows * kRows, 1)), before(device, RandomNumbers<T>(kRows * kOdd, 2));
  DeviceArray<T> c(device, kRows * kOdd);
  Product<T> product{
      .m = kRows, .n = kOdd, .k = kRows, .a = {a.get(), kRows}, .b = {a.get(), kRows}, .c = c.get(), .c_stride = kOdd};
  CHECK_FALSE(MatmulGeluBackward(device.context(), product, before.get()));
  CHECK(SameBits(c.Read(), Poison<T>(kRows * kOdd)));
  product.n = 8, product.c_stride = 8;
  CHECK_FALSE(MatmulGeluBackward(device.context(), product, before.get() + 1));
  CHECK(SameBits(c.Read(), Poison<T>(kRows * kOdd)));
}

TEST_CASE("products that nobody can compute fail by name", "[cuda]") {
  Device device;
  DeviceArray<float> x(device, RandomNumbers<float>(64, 1)), c(device, 64);
  const Product<float> product{
      .m = 8, .n = 8, .k = 8, .a = {x.get(), 8}, .b = {x.get(), 8}, .c = c.get(), .c_stride = 8};
  Matmul(device.context(), product);
  CHECK(device.context().status().code() == Code::kUnsupported);
  CHECK_THAT(device.context().status().message(), Catch::Contains("no cuBLASLt was loaded"));
}

}  // namespace
}  // namespace capstan::kernels
