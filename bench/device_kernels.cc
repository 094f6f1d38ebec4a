#include <memory>
#include <span>
#include <string>
#include <utility>

#include "bench/device_bench.h"
#include "bench/device_stopwatch.h"
#include "kernels/attention.h"
#include "kernels/batch_norm.h"
#include "kernels/bias_activation.h"
#include "kernels/cast.h"
#include "kernels/conv2d.h"
#include "kernels/cuda/load_products.h"
#include "kernels/embedding.h"
#include "kernels/layer_norm.h"
#include "kernels/pooling.h"
#include "kernels/softmax_cross_entropy.h"

namespace capstan::bench {
namespace {

using kernels::Activation;
using kernels::ImageWindows;
using kernels::Product;
using kernels::Transpose;
using Call = std::function<void()>;

constexpr double kGiga = 1e9, kTera = 1e12, kMicro = 1e-6;

// Measures kernels, and reports each figure next to a limit of the device that was measured in the same run.
class Bench {
 public:
  Bench(cudaStream_t stream, const KernelOptions& options, const Report& report)
      : stream_(stream), options_(options), report_(report) {}

  // Measures a few figures on a new context, so that a failure does not affect the other parts.
  void Part(const std::string& name, const Call& measure) {
    context_ = std::make_unique<kernels::CudaContext>(stream_);
    const Result<std::string> products = kernels::LoadProducts(options_.libraries, context_.get());
    if (!products.ok()) context_->Fail(products.status());
    stopwatch_ = std::make_unique<Stopwatch>(*context_, options_.is_small);
    measure();
    context_->Note(cudaStreamSynchronize(stream_), "waiting");
    if (context_->status().ok()) return;
    failures_ += (failures_.empty() ? "" : "; ") + name + ": " + context_->status().message();
  }
  Status status() const { return failures_.empty() ? Status() : Unsupported(failures_); }

  void MeasureLimits() {
    Arrays arrays(context());
    const std::int64_t bytes = options_.is_small ? 1 << 16 : 1 << 30, side = options_.is_small ? 64 : 8192;
    auto* const from = arrays.Numbers<float>(bytes / 4);
    auto* const to = arrays.Unset<float>(bytes / 4);
    double microseconds = stopwatch_->Microseconds([&] {
      context().Note(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream_),
                     "copying");
    });
    copy_ = 2 * static_cast<double>(bytes) / (microseconds * kMicro) / kGiga;
    Print({.name = "device/copy", .value = copy_, .unit = "GB/s", .microseconds = microseconds});
    auto* const a = arrays.Numbers<Bf16>(side * side);
    auto* const b = arrays.Numbers<Bf16>(side * side);
    auto* const c = arrays.Unset<Bf16>(side * side);
    const Product<Bf16> product{
        .m = side, .n = side, .k = side, .a = {a, side}, .b = {b, side}, .c = c, .c_stride = side};
    microseconds = stopwatch_->Microseconds([&] { Matmul(context(), product); });
    const auto cube = static_cast<double>(side);
    product_ = 2 * cube * cube * cube / (microseconds * kMicro) / kTera;
    Print({.name = "device/product", .value = product_, .unit = "TFLOP/s", .microseconds = microseconds});
  }

  // Measures bytes per second. `bytes`: what one call reads and writes of its large operands.
  void Bytes(const std::string& name, double bytes, const Call& call) {
    const double microseconds = stopwatch_->Microseconds(call);
    Beside(name, bytes / (microseconds * kMicro) / kGiga, "GB/s", copy_, "a copy within the device", microseconds);
  }
  void Operations(const std::string& name, double operations, const Call& call) {
    const double microseconds = stopwatch_->Microseconds(call);
    Beside(name, operations / (microseconds * kMicro) / kTera, "TFLOP/s", product_, "a large product in bf16",
           microseconds);
  }

  template <class Out>
  void Measure(const std::string& name, const Product<Bf16, Out>& p) {
    Operations(name, 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k),
               [&] { Matmul(context(), p); });
  }

  kernels::CudaContext& context() { return *context_; }

 private:
  void Beside(const std::string& name, double value, const std::string& unit, double limit,
              const std::string& limit_name, double microseconds) {
    Print({.name = name,
           .value = value,
           .unit = unit,
           .limit = limit,
           .limit_name = limit_name,
           .microseconds = microseconds});
  }
  void Print(const DeviceFigure& figure) {
    if (context_->status().ok()) report_(figure);
  }

  const cudaStream_t stream_;
  const KernelOptions& options_;
  const Report& report_;
  std::unique_ptr<kernels::CudaContext> context_;  // for the current part
  std::unique_ptr<Stopwatch> stopwatch_;
  std::string failures_;
  double copy_ = 0, product_ = 0;
};

// ---- gpt ----------------------------------------------------------------------------------------------------------

struct Gpt {
  std::string name;
  std::int64_t sequences, length, width, heads, vocabulary;
  std::int64_t rows() const { return sequences * length; }
  double numbers(std::int64_t columns) const { return static_cast<double>(rows()) * static_cast<double>(columns); }
};

// Measures the three products of a linear layer: forward with bias (and GELU), gradient of the input, gradient of the
// weights.
void MeasureLinear(Bench& bench, const std::string& name, std::int64_t rows, std::int64_t in, std::int64_t out,
                   Activation activation) {
  Arrays arrays(bench.context());
  auto* const x = arrays.Numbers<Bf16>(rows * in);
  auto* const w = arrays.Numbers<Bf16>(out * in, 0.02F);
  auto* const bias = arrays.Numbers<Bf16>(out);
  auto* const y = arrays.Numbers<Bf16>(rows * out);
  auto* const activated = activation == Activation::kNone ? nullptr : arrays.Unset<Bf16>(rows * out);
  auto* const dw = arrays.Unset<float>(out * in);
  Product<Bf16> forward{
      .m = rows, .n = out, .k = in, .a = {x, in}, .b = {w, in, Transpose::kYes}, .c = y, .c_stride = out};
  const Product<Bf16> dx{.m = rows, .n = in, .k = out, .a = {y, out}, .b = {w, in}, .c = x, .c_stride = in};
  const Product<Bf16, float> gradient{
      .m = out, .n = in, .k = rows, .a = {y, out, Transpose::kYes}, .b = {x, in}, .c = dw, .c_stride = in};
  bench.Measure(name + "/weight_gradient", gradient);
  bench.Measure(name + "/input_gradient", dx);
  forward.bias = bias, forward.activation = activation, forward.activated = activated;
  bench.Measure(name + "/forward", forward);
}

// Measures the head (the last linear layer, which has no bias) and the loss. The head's products are almost a third of
// the model's operations.
void MeasureHead(Bench& bench, const Gpt& g, std::int64_t vocabulary, const std::string& name) {
  Arrays arrays(bench.context());
  auto* const x = arrays.Numbers<Bf16>(g.rows() * g.width);
  auto* const w = arrays.Numbers<Bf16>(vocabulary * g.width, 0.02F);
  auto* const logits = arrays.Unset<Bf16>(g.rows() * vocabulary);
  auto* const dw = arrays.Unset<float>(vocabulary * g.width);
  auto* const targets = arrays.Tokens(g.rows(), vocabulary);
  auto* const loss = arrays.Unset<kernels::LossResult>(1);
  bench.Measure<Bf16>(name + "/forward", {.m = g.rows(),
                                          .n = vocabulary,
                                          .k = g.width,
                                          .a = {x, g.width},
                                          .b = {w, g.width, Transpose::kYes},
                                          .c = logits,
                                          .c_stride = vocabulary});
  // The call overwrites the logits with gradients, so later calls read gradients as logits. The speed is the same.
  bench.Bytes(name + "/softmax_cross_entropy", 4 * g.numbers(vocabulary), [&] {
    SoftmaxCrossEntropy(bench.context(), kernels::SoftmaxCrossEntropyArgs<Bf16>{.rows = g.rows(),
                                                                                .classes = vocabulary,
                                                                                .stride = vocabulary,
                                                                                .logits = logits,
                                                                                .targets = targets,
                                                                                .result = loss});
  });
  bench.Measure<Bf16>(name + "/input_gradient", {.m = g.rows(),
                                                 .n = g.width,
                                                 .k = vocabulary,
                                                 .a = {logits, vocabulary},
                                                 .b = {w, g.width},
                                                 .c = x,
                                                 .c_stride = g.width});
  bench.Measure<float>(name + "/weight_gradient", {.m = vocabulary,
                                                   .n = g.width,
                                                   .k = g.rows(),
                                                   .a = {logits, vocabulary, Transpose::kYes},
                                                   .b = {x, g.width},
                                                   .c = dw,
                                                   .c_stride = g.width});
}

void MeasureAttention(Bench& bench, const Gpt& g) {
  Arrays arrays(bench.context());
  const kernels::AttentionShape shape{g.sequences, g.length, g.heads, g.width / g.heads};
  auto* const qkv = arrays.Numbers<Bf16>(3 * g.rows() * g.width);
  auto* const out = arrays.Unset<Bf16>(g.rows() * g.width);
  auto* const log_sum = arrays.Unset<float>(g.rows() * g.heads);
  auto* const dout = arrays.Numbers<Bf16>(g.rows() * g.width);
  auto* const dqkv = arrays.Unset<Bf16>(3 * g.rows() * g.width);
  // Causal attention skips half of the square matrix of scores. The forward pass has two products, the backward pass
  // five.
  const double product = g.numbers(g.width) * static_cast<double>(g.length);
  bench.Operations(g.name + "/attention/forward", 2 * product, [&] {
    CausalAttention(bench.context(), kernels::AttentionArgs<Bf16>{
                                         .shape = shape, .dropout = {}, .qkv = qkv, .out = out, .log_sum = log_sum});
  });
  bench.Operations(g.name + "/attention/backward", 5 * product, [&] {
    CausalAttentionBackward(
        bench.context(),
        kernels::AttentionGradient<Bf16>{
            .shape = shape, .dropout = {}, .qkv = qkv, .out = out, .log_sum = log_sum, .dout = dout, .dqkv = dqkv});
  });
}

void MeasureNorms(Bench& bench, const Gpt& g) {
  Arrays arrays(bench.context());
  const std::int64_t count = g.rows() * g.width;
  auto* const a = arrays.Numbers<Bf16>(count);
  auto* const b = arrays.Numbers<Bf16>(count);
  auto* const sum = arrays.Unset<Bf16>(count);
  auto* const y = arrays.Unset<Bf16>(count);
  auto* const gamma = arrays.Ones<Bf16>(g.width);
  auto* const beta = arrays.Numbers<Bf16>(g.width);
  auto* const mean = arrays.Unset<float>(g.rows());
  auto* const inverse = arrays.Unset<float>(g.rows());
  auto* const gradients = arrays.Unset<float>(2 * g.width);
  kernels::ResidualLayerNormArgs<Bf16> args{.rows = g.rows(),
                                            .columns = g.width,
                                            .a = a,
                                            .gamma = gamma,
                                            .beta = beta,
                                            .y = y,
                                            .mean = mean,
                                            .inverse_deviation = inverse};
  bench.Bytes(g.name + "/layer_norm", 4 * g.numbers(g.width), [&] { ResidualLayerNorm(bench.context(), args); });
  args.b = b, args.sum = sum;
  bench.Bytes(g.name + "/residual_layer_norm", 8 * g.numbers(g.width),
              [&] { ResidualLayerNorm(bench.context(), args); });
  const kernels::LayerNormGradient<Bf16> gradient{.rows = g.rows(),
                                                  .columns = g.width,
                                                  .x = sum,
                                                  .mean = mean,
                                                  .inverse_deviation = inverse,
                                                  .gamma = gamma,
                                                  .dy = b,
                                                  .dx = a,
                                                  .dx_beta = 1,
                                                  .gamma_gradient = gradients,
                                                  .beta_gradient = gradients + g.width};
  // The kernel reads x, dy and dx, and writes dx.
  bench.Bytes(g.name + "/layer_norm/backward", 8 * g.numbers(g.width),
              [&] { LayerNormBackward(bench.context(), gradient); });
}

void MeasureBias(Bench& bench, const Gpt& g) {
  Arrays arrays(bench.context());
  const std::int64_t columns = 4 * g.width;
  auto* const x = arrays.Numbers<Bf16>(g.rows() * columns);
  auto* const dy = arrays.Numbers<Bf16>(g.rows() * columns);
  auto* const bias = arrays.Unset<float>(columns);
  kernels::BiasActivationGradient<Bf16> args{.rows = g.rows(), .columns = g.width, .dy = dy, .bias_gradient = bias};
  bench.Bytes(g.name + "/bias/backward", 2 * g.numbers(g.width),
              [&] { BiasActivationBackward(bench.context(), args); });
  args.columns = columns, args.activation = Activation::kGelu, args.x = x;
  bench.Bytes(g.name + "/bias_gelu/backward", 6 * g.numbers(columns),
              [&] { BiasActivationBackward(bench.context(), args); });
}

void MeasureEmbedding(Bench& bench, const Gpt& g) {
  Arrays arrays(bench.context());
  const std::int64_t count = g.rows() * g.width, table = g.vocabulary * g.width;
  auto* const tokens = arrays.Tokens(g.rows(), g.vocabulary);
  auto* const token_table = arrays.Numbers<Bf16>(table);
  auto* const position_table = arrays.Numbers<Bf16>(g.length * g.width);
  auto* const y = arrays.Unset<Bf16>(count);
  auto* const token_gradient = arrays.Zeros<float>(table);
  auto* const position_gradient = arrays.Zeros<float>(g.length * g.width);
  const kernels::EmbeddingArgs<Bf16> args{.sequences = g.sequences,
                                          .length = g.length,
                                          .width = g.width,
                                          .tokens = tokens,
                                          .token_table = token_table,
                                          .position_table = position_table,
                                          .y = y};
  bench.Bytes(g.name + "/embedding", 4 * g.numbers(g.width), [&] { Embedding(bench.context(), args); });
  const kernels::EmbeddingGradient<Bf16> gradient{.sequences = g.sequences,
                                                  .length = g.length,
                                                  .width = g.width,
                                                  .vocabulary = g.vocabulary,
                                                  .tokens = tokens,
                                                  .dy = y,
                                                  .token_gradient = token_gradient,
                                                  .position_gradient = position_gradient};
  // Counts only dy. The kernel also reads and writes the table rows of the tokens that occur.
  bench.Bytes(g.name + "/embedding/backward", 2 * g.numbers(g.width),
              [&] { EmbeddingBackward(bench.context(), gradient); });
  auto* const narrow = arrays.Unset<Bf16>(table);
  bench.Bytes(g.name + "/cast_of_the_table", 6 * static_cast<double>(table),
              [&] { Cast(bench.context(), table, token_gradient, narrow); });
}

void MeasureGpt(Bench& bench, const Gpt& g) {
  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out, Activation activation) {
    bench.Part(name, [&] { MeasureLinear(bench, g.name + name, g.rows(), in, out, activation); });
  };
  linear("/qkv", g.width, 3 * g.width, Activation::kNone);
  linear("/projection", g.width, g.width, Activation::kNone);
  linear("/expand_gelu", g.width, 4 * g.width, Activation::kGelu);
  linear("/contract", 4 * g.width, g.width, Activation::kNone);
  bench.Part("/attention", [&] { MeasureAttention(bench, g); });
  bench.Part("/layer_norm", [&] { MeasureNorms(bench, g); });
  bench.Part("/bias", [&] { MeasureBias(bench, g); });
  bench.Part("/embedding", [&] { MeasureEmbedding(bench, g); });
  bench.Part("/head", [&] { MeasureHead(bench, g, g.vocabulary, g.name + "/head"); });
  // GPT-2's real vocabulary has an odd size, 50257, so a row of logits is aligned only to single numbers.
  bench.Part("/head_unpadded", [&] { MeasureHead(bench, g, g.vocabulary - 47, g.name + "/head_unpadded"); });
}

// ---- resnet -------------------------------------------------------------------------------------------------------

struct Layer {
  const char* name;
  std::int64_t samples, side, channels, filters, window, stride, padding;
};

// Layers of a ResNet for images of 32 x 32 pixels. The last two are the first ones of a ResNet for 224 x 224 pixels.
constexpr Layer kLayers[] = {{"stem", 128, 32, 3, 64, 3, 1, 1},
                             {"stage_1", 128, 32, 64, 64, 3, 1, 1},
                             {"stage_2_halves", 128, 32, 64, 128, 3, 2, 1},
                             {"stage_2_shortcut", 128, 32, 64, 128, 1, 2, 0},
                             {"stage_2", 128, 16, 128, 128, 3, 1, 1},
                             {"stage_3", 128, 8, 256, 256, 3, 1, 1},
                             {"stage_4", 128, 4, 512, 512, 3, 1, 1},
                             {"stem_224", 32, 224, 3, 64, 7, 2, 3},
                             {"stage_1_224", 32, 56, 64, 64, 3, 1, 1}};
constexpr Layer kSmallLayers[] = {{"stage", 2, 6, 8, 8, 3, 1, 1}};

void MeasureConvolution(Bench& bench, const Layer& layer) {
  Arrays arrays(bench.context());
  const kernels::Conv2dShape shape{.windows = {.samples = layer.samples,
                                               .height = layer.side,
                                               .width = layer.side,
                                               .channels = layer.channels,
                                               .window_height = layer.window,
                                               .window_width = layer.window,
                                               .stride = layer.stride,
                                               .padding = layer.padding},
                                   .filters = layer.filters};
  const ImageWindows& w = shape.windows;
  const std::int64_t out = w.samples * w.out_pixels() * shape.filters, filter = w.window_elements() * shape.filters;
  auto* const x = arrays.Numbers<Bf16>(w.samples * w.image_elements());
  auto* const weights = arrays.Numbers<Bf16>(filter, 0.02F);
  auto* const y = arrays.Numbers<Bf16>(out);
  auto* const gradient = arrays.Unset<float>(filter);
  const double operations = 2.0 * static_cast<double>(out) * static_cast<double>(w.window_elements());
  const std::string name = std::string("resnet/") + layer.name;
  bench.Operations(name + "/weight_gradient", operations, [&] {
    Conv2dFilterBackward(bench.context(), kernels::Conv2dFilterGradient<Bf16>{
                                              .shape = shape, .x = x, .dy = y, .filter_gradient = gradient});
  });
  bench.Operations(name + "/forward", operations, [&] {
    Conv2d(bench.context(), kernels::Conv2dArgs<Bf16>{.shape = shape, .x = x, .filter = weights, .y = y});
  });
  bench.Operations(name + "/input_gradient", operations, [&] {
    Conv2dInputBackward(bench.context(),
                        kernels::Conv2dInputGradient<Bf16>{.shape = shape, .filter = weights, .dy = y, .dx = x});
  });
}

void MeasureBatchNorm(Bench& bench, std::int64_t rows, std::int64_t channels) {
  Arrays arrays(bench.context());
  const double numbers = static_cast<double>(rows) * static_cast<double>(channels);
  auto* const x = arrays.Numbers<Bf16>(rows * channels);
  auto* const y = arrays.Unset<Bf16>(rows * channels);
  auto* const dy = arrays.Numbers<Bf16>(rows * channels);
  auto* const gamma = arrays.Ones<Bf16>(channels);
  auto* const statistics = arrays.Zeros<float>(6 * channels);
  const auto at = [&](std::int64_t i) { return statistics + i * channels; };
  // The kernel reads x twice (first for mean and variance) and writes y.
  bench.Bytes("resnet/batch_norm_relu", 6 * numbers, [&] {
    BatchNorm(bench.context(), kernels::BatchNormArgs<Bf16>{.rows = rows,
                                                            .channels = channels,
                                                            .x = x,
                                                            .gamma = gamma,
                                                            .beta = gamma,
                                                            .activation = Activation::kRelu,
                                                            .y = y,
                                                            .mean = at(0),
                                                            .inverse_deviation = at(1),
                                                            .mean_average = at(2),
                                                            .variance_average = at(3)});
  });
  // The kernel reads x, y and dy twice, and writes dy and dx.
  bench.Bytes("resnet/batch_norm_relu/backward", 16 * numbers, [&] {
    BatchNormBackward(bench.context(), kernels::BatchNormGradient<Bf16>{.rows = rows,
                                                                        .channels = channels,
                                                                        .x = x,
                                                                        .mean = at(0),
                                                                        .inverse_deviation = at(1),
                                                                        .gamma = gamma,
                                                                        .activation = Activation::kRelu,
                                                                        .y = y,
                                                                        .dy = dy,
                                                                        .dx = dy,
                                                                        .gamma_gradient = at(4),
                                                                        .beta_gradient = at(5)});
  });
}

void MeasurePooling(Bench& bench, std::int64_t samples, std::int64_t side, std::int64_t channels) {
  Arrays arrays(bench.context());
  const ImageWindows w{.samples = samples,
                       .height = side,
                       .width = side,
                       .channels = channels,
                       .window_height = 3,
                       .window_width = 3,
                       .stride = 2,
                       .padding = 1};
  const std::int64_t in = samples * w.image_elements(), out = samples * w.out_pixels() * channels;
  auto* const x = arrays.Numbers<Bf16>(in);
  auto* const y = arrays.Unset<Bf16>(out);
  auto* const argmax = arrays.Unset<std::int32_t>(out);
  const double bytes = 2 * static_cast<double>(in) + 6 * static_cast<double>(out);
  bench.Bytes("resnet/max_pool", bytes, [&] { MaxPool(bench.context(), w, x, y, argmax); });
  bench.Bytes("resnet/max_pool/backward", bytes, [&] { MaxPoolBackward(bench.context(), w, y, argmax, x); });
}

}  // namespace

Status MeasureKernels(const KernelOptions& options, const Report& report) {
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
    return Unsupported("no stream was made");
  const train::CudaStream owned(stream);
  Bench bench(stream, options, report);
  bench.Part("limits", [&] { bench.MeasureLimits(); });
  CAPSTAN_RETURN_IF_ERROR(bench.status());
  const bool small = options.is_small;
  const std::string name = "gpt-b" + std::to_string(options.batch);
  MeasureGpt(bench, small ? Gpt{name, options.batch, 32, 64, 2, 112}
                          : Gpt{name, options.batch, 1024, 768, 12, kPaddedVocabulary});
  const std::span<const Layer> layers = small ? std::span<const Layer>(kSmallLayers) : kLayers;
  for (const Layer& layer : layers) bench.Part(layer.name, [&] { MeasureConvolution(bench, layer); });
  bench.Part("batch norm", [&] { MeasureBatchNorm(bench, small ? 40 : 128 * 32 * 32, small ? 8 : 64); });
  bench.Part("pooling", [&] { MeasurePooling(bench, small ? 2 : 32, small ? 6 : 112, small ? 8 : 64); });
  return bench.status();
}

}  // namespace capstan::bench
