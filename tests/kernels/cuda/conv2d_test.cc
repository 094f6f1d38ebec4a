// Convolution and its gradients on a device against the CPU in double, on the same inputs.
#include "kernels/conv2d.h"

#include <vector>

#include "tests/catch.h"
#include "tests/kernels/cuda/start_convolutions.h"
#include "tests/kernels/cuda/start_products.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

enum class Library { kNone, kCudnn };

struct Case {
  Conv2dShape shape;
  std::int64_t offset = 0;
};

const std::vector<Case> kCases = {{{{1, 1, 1, 1, 1, 1, 1, 0}, 1}},     // one product
                                  {{{3, 5, 7, 17, 1, 1, 1, 0}, 33}},   // one product
                                  {{{2, 15, 17, 3, 3, 3, 1, 1}, 31}},  // as most in a network
                                  {{{3, 17, 15, 8, 3, 3, 2, 1}, 16}},  // halves height and width
                                  {{{3, 17, 15, 8, 3, 3, 2, 1}, 16}, 1},
                                  {{{2, 9, 8, 33, 1, 1, 2, 0}, 15}},   // as the shortcut of a residual network
                                  {{{1, 31, 33, 1, 7, 5, 2, 3}, 17}},  // a window that is not square, wide padding
                                  {{{257, 4, 3, 2, 3, 2, 1, 1}, 3}},   // several images per block
                                  {{{2, 8, 8, 64, 3, 3, 1, 1}, 64}}};  // of a size that is trained

// Sizes of the blocks of columns: all columns at once, or several blocks with a remainder.
const std::int64_t kBlocks[] = {kConvDeviceElements, 1100};

template <class T>
struct Given {
  explicit Given(const Case& c)
      : x(RandomNumbers<T>(c.shape.windows.samples * c.shape.windows.image_elements(), 1)),
        filter(RandomNumbers<T>(c.shape.filters * c.shape.windows.window_elements(), 2)),
        bias(RandomNumbers<T>(c.shape.filters, 3)),
        dy(RandomNumbers<T>(c.shape.windows.samples * c.shape.windows.out_pixels() * c.shape.filters, 4)),
        old_dx(RandomNumbers<T>(static_cast<std::int64_t>(x.size()), 5)),
        old_dfilter(RandomNumbers<float>(static_cast<std::int64_t>(filter.size()), 6)) {}
  std::vector<T> x, filter, bias, dy, old_dx;
  std::vector<float> old_dfilter;
};

// Results without bias, activation and addition to the old values, and with them.
template <class T>
struct Results {
  std::vector<T> y, y_relu, dx, dx_added;
  std::vector<Wide<T>> dfilter, dfilter_added;
};

template <class T>
Conv2dArgs<T> Args(const Case& c, const T* x, const T* filter, const T* bias, T* y) {
  return {.shape = c.shape,
          .x = x,
          .filter = filter,
          .bias = bias,
          .y = y,
          .activation = bias == nullptr ? Activation::kNone : Activation::kRelu};
}
template <class T>
Conv2dInputGradient<T> Input(const Case& c, const T* filter, const T* dy, T* dx, double beta) {
  return {.shape = c.shape, .filter = filter, .dy = dy, .dx = dx, .beta = static_cast<Wide<T>>(beta)};
}
template <class T>
Conv2dFilterGradient<T> Filter(const Case& c, const T* x, const T* dy, Wide<T>* dfilter, double beta) {
  return {.shape = c.shape, .x = x, .dy = dy, .filter_gradient = dfilter, .beta = static_cast<Wide<T>>(beta)};
}

template <class T>
Results<T> OnDevice(const Case& c, const Given<T>& in, std::int64_t block, Library library) {
  Device device;
  StartProducts(device);
  if (library == Library::kCudnn) REQUIRE(StartConvolutions(device));
  CudaContext& context = device.context();
  const auto count = [](const auto& v) { return static_cast<std::int64_t>(v.size()); };
  DeviceArray<T> x(device, in.x, c.offset), filter(device, in.filter, c.offset), bias(device, in.bias, c.offset),
      dy(device, in.dy, c.offset), y(device, count(in.dy), c.offset), y_relu(device, count(in.dy), c.offset),
      dx(device, count(in.x), c.offset), dx_added(device, in.old_dx, c.offset);
  DeviceArray<float> dfilter(device, count(in.filter), c.offset), dfilter_added(device, in.old_dfilter, c.offset);
  const T* const none = nullptr;
  Conv2d(context, Args<T>(c, x.get(), filter.get(), none, y.get()), block);
  Conv2d(context, Args<T>(c, x.get(), filter.get(), bias.get(), y_relu.get()), block);
  Conv2dInputBackward(context, Input<T>(c, filter.get(), dy.get(), dx.get(), 0), block);
  Conv2dInputBackward(context, Input<T>(c, filter.get(), dy.get(), dx_added.get(), 0.5), block);
  Conv2dFilterBackward(context, Filter<T>(c, x.get(), dy.get(), dfilter.get(), 0), block);
  Conv2dFilterBackward(context, Filter<T>(c, x.get(), dy.get(), dfilter_added.get(), 0.5), block);
  return {y.Read(), y_relu.Read(), dx.Read(), dx_added.Read(), dfilter.Read(), dfilter_added.Read()};
}

template <class T>
Results<double> InDouble(const Case& c, const Given<T>& in) {
  CpuContext cpu(1);
  const auto x = Doubles(in.x), filter = Doubles(in.filter), bias = Doubles(in.bias), dy = Doubles(in.dy);
  const auto poison = [](const auto& v) { return Poison<double>(static_cast<std::int64_t>(v.size())); };
  Results<double> r{poison(dy), poison(dy), poison(x), Doubles(in.old_dx), poison(filter), Doubles(in.old_dfilter)};
  const double* const none = nullptr;
  Conv2d(cpu, Args<double>(c, x.data(), filter.data(), none, r.y.data()));
  Conv2d(cpu, Args<double>(c, x.data(), filter.data(), bias.data(), r.y_relu.data()));
  Conv2dInputBackward(cpu, Input<double>(c, filter.data(), dy.data(), r.dx.data(), 0));
  Conv2dInputBackward(cpu, Input<double>(c, filter.data(), dy.data(), r.dx_added.data(), 0.5));
  Conv2dFilterBackward(cpu, Filter<double>(c, x.data(), dy.data(), r.dfilter.data(), 0));
  Conv2dFilterBackward(cpu, Filter<double>(c, x.data(), dy.data(), r.dfilter_added.data(), 0.5));
  return r;
}

template <class T>
void CheckCase(const Case& c, std::int64_t block, Library library, const Given<T>& in, const Results<double>& wide) {
  const ImageWindows& w = c.shape.windows;
  CAPTURE(w.samples, w.height, w.width, w.channels, w.window_height, w.stride, block, c.offset);
  const Results<T> ours = OnDevice(c, in, block, library), again = OnDevice(c, in, block, library);
  const double sums = 1e-5, rounded = std::is_same_v<T, float> ? sums : kRounded<T>;
  CHECK(Agree<T>("convolution: y", RelativeDistance(ours.y, wide.y), rounded));
  CHECK(Agree<T>("convolution: y, with bias and ReLU", RelativeDistance(ours.y_relu, wide.y_relu), rounded));
  CHECK(Agree<T>("convolution: dx", RelativeDistance(ours.dx, wide.dx), rounded));
  CHECK(Agree<T>("convolution: dx, added", RelativeDistance(ours.dx_added, wide.dx_added), rounded));
  CHECK(Agree<T>("convolution: dfilter", RelativeDistance(ours.dfilter, wide.dfilter), sums));
  CHECK(Agree<T>("convolution: dfilter, added", RelativeDistance(ours.dfilter_added, wide.dfilter_added), sums));
  CHECK(SameBits(ours.y, again.y));
  CHECK(SameBits(ours.dx, again.dx));
  CHECK(SameBits(ours.dfilter, again.dfilter));
}

TEMPLATE_TEST_CASE("a convolution and its gradients on a device", "[cuda][conv2d]", float, Bf16, Half) {
  for (const Case& c : kCases) {
    const Given<TestType> in(c);
    const Results<double> wide = InDouble(c, in);
    for (const std::int64_t block : kBlocks) CheckCase(c, block, Library::kNone, in, wide);
  }
}

TEMPLATE_TEST_CASE("a convolution and its gradients by cuDNN", "[cuda][conv2d]", float, Bf16, Half) {
  Device device;
  if (!StartConvolutions(device)) return;
  for (const Case& c : kCases) {
    const Given<TestType> in(c);
    CheckCase(c, kConvDeviceElements, Library::kCudnn, in, InDouble(c, in));
  }
}

}  // namespace
}  // namespace capstan::kernels
