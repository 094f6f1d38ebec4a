#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/device_bench.h"
#include "common/base/random.h"
#include "common/data/encoding.h"
#include "worker/device/create_device_model.h"

namespace capstan::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kPeakTeraflops = 989;  // dense bf16 on an H100 or H200, according to NVIDIA

struct Subject {
  nn::ModelShape shape;
  std::int64_t inputs = 0, tokens = 0;  // per sample
  std::int64_t classes = 0;
  std::string unit;
  std::int64_t units = 1;           // how many units a sample counts as
  double operations_per_token = 0;  // of attention only: 6 times layers, width and length
};

Result<Subject> SubjectOf(const TrainingOptions& o) {
  const bool small = o.is_small;
  if (o.model == "gpt") {
    const std::int64_t layers = small ? 2 : 12, width = small ? 32 : 768, heads = small ? 2 : 12;
    return Subject{.shape = nn::GptShape{o.vocabulary, o.length, layers, heads, width},
                   .tokens = o.length,
                   .classes = o.vocabulary,
                   .unit = "tokens/s",
                   .units = o.length,
                   .operations_per_token = 6.0 * static_cast<double>(layers * width * o.length)};
  }
  const auto pictures = [&](std::int64_t side, std::int64_t channels, auto shape) {
    shape.image = {side, side, channels};
    shape.classes = 10;
    return Subject{.shape = shape, .inputs = side * side * channels, .classes = 10, .unit = "samples/s"};
  };
  if (o.model == "resnet18") {
    nn::ResnetShape shape;
    shape.depth = 18;
    shape.width = small ? 4 : 64;
    return pictures(small ? 8 : 32, 3, shape);
  }
  if (o.model == "convnet") {
    nn::ConvnetShape shape;
    if (small)
      shape.channels = {4, 8}, shape.hidden = {16};
    else
      shape.channels = {32, 64}, shape.hidden = {128};
    return pictures(small ? 8 : 28, 1, shape);
  }
  if (o.model == "mlp") {
    const std::int64_t width = small ? 32 : 1024;
    return Subject{.shape = nn::MlpShape{784, 10, {width, width}}, .inputs = 784, .classes = 10, .unit = "samples/s"};
  }
  return Invalid("no model is named \"" + o.model + "\"; there are gpt, resnet18, convnet and mlp");
}

// Weights, gradients and samples in the host's memory, with random values, in a worker's layout.
struct HostArrays {
  HostArrays(const Subject& subject, const std::vector<TensorSpec>& tensors, const TrainingOptions& options) {
    RandomStream random(1);
    const std::int64_t samples = options.batch;
    for (const TensorSpec& tensor : tensors) {
      const std::uint64_t count = tensor.ElementCount();
      if (tensor.kind != TensorKind::kStatistic) parameters += static_cast<double>(count);
      const bool ones = tensor.init.kind == InitKind::kOnes;
      const double scale = ones ? 0 : std::sqrt(static_cast<double>(tensor.shape.back()) / static_cast<double>(count));
      for (std::uint64_t i = 0; i < count; ++i) {
        weights.push_back(ones ? 1.0F : static_cast<float>(0.5 * scale * (2 * random.Unit() - 1)));
      }
    }
    gradients.resize(weights.size());
    for (std::int64_t i = 0; i < samples * subject.inputs; ++i) inputs.push_back(static_cast<float>(random.Unit()));
    const auto below = static_cast<std::uint64_t>(subject.classes);
    for (std::int64_t i = 0; i < samples * subject.tokens; ++i) {
      const double u = random.Unit();  // small token numbers are more frequent, as in a text
      tokens.push_back(static_cast<std::int32_t>(u * u * u * static_cast<double>(subject.classes)));
    }
    for (std::int64_t i = 0; i < samples * std::max<std::int64_t>(subject.tokens, 1); ++i) {
      targets.push_back(static_cast<std::int32_t>(random.Below(below)));
    }
    if (options.precision == Precision::kFp32) return;
    narrow.resize(weights.size());
    Encode(options.precision == Precision::kBf16 ? Encoding::kBf16 : Encoding::kFp16, weights,
           reinterpret_cast<std::byte*>(narrow.data()));
  }

  train::WeightsView View(std::uint64_t round) const {
    return {weights.data(), narrow.empty() ? nullptr : narrow.data(), round};
  }

  double parameters = 0;
  std::vector<float> weights, gradients, inputs;
  std::vector<std::uint16_t> narrow;
  std::vector<std::int32_t> tokens, targets;
};

// Which copies are part of the timed step: new weights to the device, and gradients back to the host.
struct Exchange {
  bool takes_weights = false, gives_gradients = false;
};

// Returns the median seconds of a step, after a warm-up. A step ends when the host has the loss and, with
// `gives_gradients`, the gradients.
Result<double> SecondsOf(train::JobModel& model, HostArrays& host, const Exchange& exchange,
                         const TrainingOptions& options) {
  const nn::Batch batch{options.batch, host.inputs, host.tokens, host.targets};
  const nn::TrainOptions train_options{.gradient_scale = 1e-3, .deliver = exchange.gives_gradients};
  const int warmup = options.is_small ? 1 : 5;
  std::vector<double> seconds;
  for (int step = 0; step < warmup + options.steps; ++step) {
    const train::WeightsView view = host.View(exchange.takes_weights ? 0U : 1U);
    const nn::StepKey key{.seed = 1, .step = static_cast<std::uint64_t>(step)};
    const Clock::time_point begin = Clock::now();
    CAPSTAN_ASSIGN_OR_RETURN(const nn::LossSums sums,
                             model.Train(view, host.gradients.data(), batch, key, train_options, {}));
    if (!std::isfinite(sums.loss)) return Invalid("step " + std::to_string(step) + " has a loss that is not finite");
    if (step >= warmup) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

Status MeasureSteps(const TrainingOptions& options, const Report& report) {
  CAPSTAN_ASSIGN_OR_RETURN(const Subject subject, SubjectOf(options));
  std::unique_ptr<HostArrays> arrays;  // outlives the model, which pins these weights
  CAPSTAN_ASSIGN_OR_RETURN(
      const std::unique_ptr<train::JobModel> model,
      train::CreateDeviceModel({.libraries = options.libraries}, options.precision, subject.shape));
  arrays = std::make_unique<HostArrays>(subject, model->tensors(), options);
  HostArrays& host = *arrays;
  if (const std::string unpinned = model->PinWeights(host.View(0)); !unpinned.empty()) return Invalid(unpinned);
  model->ReserveActivations(model->MeasureActivations(options.batch));
  const bool is_padded = options.model != "gpt" || options.vocabulary == kPaddedVocabulary;
  const std::string name = "train/" + options.model + "-b" + std::to_string(options.batch) +
                           (is_padded ? "" : "-v" + std::to_string(options.vocabulary)) + "/";
  const double units = static_cast<double>(options.batch * subject.units);
  double computing = 0;
  const auto measure = [&](const char* what, const Exchange& exchange) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const double seconds, SecondsOf(*model, host, exchange, options));
    DeviceFigure figure{.name = name + what, .value = units / seconds, .unit = subject.unit};
    figure.microseconds = 1e6 * seconds;
    if (computing > 0) figure.limit = computing, figure.limit_name = "the same without copies of weights and gradients";
    report(figure);
    if (computing == 0) computing = figure.value;
    return {};
  };
  CAPSTAN_RETURN_IF_ERROR(measure("compute", {}));
  if (options.model == "gpt") {
    const double operations = 6 * host.parameters + subject.operations_per_token;
    report({.name = name + "flops",
            .value = computing * operations * 1e-12,
            .unit = "TFLOP/s",
            .limit = kPeakTeraflops,
            .limit_name = "dense bf16 of an H200, 6N+6LCT operations a token",
            .microseconds = 1e6 * units / computing});
  }
  CAPSTAN_RETURN_IF_ERROR(measure("gradients_to_host", {.gives_gradients = true}));
  return measure("weights_and_gradients", {.takes_weights = true, .gives_gradients = true});
}

}  // namespace capstan::bench
