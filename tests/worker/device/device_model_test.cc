// A job's model on a device against the same model on the CPU: losses, gradients, and the order of copies.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "common/base/hash.h"
#include "common/data/encoding.h"
#include "tests/catch.h"
#include "tests/kernels/numbers.h"
#include "worker/device/create_device_model.h"

namespace capstan::train {
namespace {

using kernels::Doubles;
using kernels::RandomIndices;
using kernels::RandomNumbers;
using kernels::RelativeDistance;

struct Subject {
  const char* name;
  nn::ModelShape shape;
  std::int64_t samples, features, classes;  // features 0: tokens
};

constexpr std::int64_t kContext = 24, kVocabulary = 29;

std::vector<Subject> Subjects() {
  const nn::ImageSize image{.height = 11, .width = 9, .channels = 3};
  return {{"mlp", nn::MlpShape{.features = 33, .classes = 7, .hidden = {65, 31}, .dropout = 0.1}, 37, 33, 7},
          {"convnet", nn::ConvnetShape{.image = image, .classes = 7, .channels = {17}, .hidden = {30}}, 5, 297, 7},
          {"resnet", nn::ResnetShape{.image = image, .classes = 7, .depth = 18, .width = 4}, 5, 297, 7},
          {"recomputed resnet",
           nn::ResnetShape{.image = image, .classes = 7, .depth = 18, .width = 4, .recompute = true}, 5, 297, 7},
          {"gpt",
           nn::GptShape{
               .vocabulary = kVocabulary, .context = kContext, .layers = 2, .heads = 2, .width = 48, .dropout = 0.1},
           3, 0, kVocabulary}};
}

Subject Named(std::string_view name) {
  const std::vector<Subject> all = Subjects();
  return *std::find_if(all.begin(), all.end(), [&](const Subject& subject) { return subject.name == name; });
}

Encoding EncodingOf(Precision precision) {
  return precision == Precision::kFp32   ? Encoding::kFp32
         : precision == Precision::kBf16 ? Encoding::kBf16
                                         : Encoding::kFp16;
}

// Data for a subject, and weights in the form in which a server would send them.
struct Inputs {
  Inputs(const Subject& subject, const std::vector<TensorSpec>& tensors, Precision precision) {
    const std::int64_t length = subject.features == 0 ? kContext : 1;
    inputs = RandomNumbers<float>(subject.samples * subject.features, 1);
    if (subject.features == 0) tokens = RandomIndices(subject.samples * length, kVocabulary, 2);
    targets = RandomIndices(subject.samples * length, static_cast<std::int32_t>(subject.classes), 3);
    for (const TensorSpec& tensor : tensors) count += static_cast<std::int64_t>(tensor.ElementCount());
    weights = RandomNumbers<float>(count, 4);
    std::size_t at = 0;
    for (const TensorSpec& tensor : tensors) {
      for (std::uint64_t i = 0; i < tensor.ElementCount(); ++i, ++at) {
        const bool ones = tensor.init.kind == InitKind::kOnes;  // scales of norms, and variances
        weights[at] = ones ? 1 + 0.1F * weights[at] : 0.2F * weights[at];
      }
    }
    if (precision == Precision::kFp32) return;
    narrow.resize(weights.size());
    Encode(EncodingOf(precision), weights, reinterpret_cast<std::byte*>(narrow.data()));
  }
  WeightsView View(std::uint64_t round = 0) const {
    return {weights.data(), narrow.empty() ? nullptr : narrow.data(), round};
  }
  nn::Batch Batch(std::int64_t samples) const { return {samples, inputs, tokens, targets}; }

  std::int64_t count = 0;
  std::vector<float> inputs, weights;
  std::vector<std::int32_t> tokens, targets;
  std::vector<std::uint16_t> narrow;
};

// Returns options for the first device, with the libraries that this machine has.
DeviceOptions Here() { return {.libraries = kernels::SearchOf(std::getenv)}; }

constexpr nn::StepKey kKey{.seed = 5, .step = 3, .slot = 1, .micro_batch = 0};

double ToleranceOf(Precision precision) {
  return precision == Precision::kFp32 ? 1e-4 : precision == Precision::kFp16 ? 2e-2 : 1e-1;
}

// Returns the gradients that the CPU computes in fp32 from the same weights, which may have 16 bits.
std::vector<float> Fp32Gradients(const Subject& subject, const Inputs& data, Precision precision) {
  kernels::CpuContext cpu(1);
  const auto model = CreateJobModel(cpu, Precision::kFp32, subject.shape).value();
  std::vector<float> weights = data.weights, gradients(data.weights.size());
  if (!data.narrow.empty()) {
    Decode(EncodingOf(precision), reinterpret_cast<const std::byte*>(data.narrow.data()), weights.size(),
           weights.data());
  }
  CAPSTAN_CHECK(
      model->Train({weights.data(), nullptr, 0}, gradients.data(), data.Batch(subject.samples), kKey, {}, {}).ok());
  return gradients;
}

// Rounding to 16 bits turns some of a ReLU's outputs on or off, and each does it in its own order, so the two gradients
// of 16 bits differ more from each other than a rounding. What counts is how far each is from the gradients of fp32.
TEST_CASE("a model on a device trains and evaluates as on the CPU", "[device]") {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    for (const Subject& subject : Subjects()) {
      CAPTURE(subject.name, static_cast<int>(precision));
      kernels::CpuContext cpu(1);
      const auto reference = CreateJobModel(cpu, precision, subject.shape).value();
      Result<std::unique_ptr<JobModel>> created = CreateDeviceModel(Here(), precision, subject.shape);
      REQUIRE(created.status().message() == "");
      JobModel& device = **created;
      const Inputs data(subject, device.tensors(), precision);
      auto gradients = kernels::Poison<float>(data.count), expected = kernels::Poison<float>(data.count);
      const nn::Batch batch = data.Batch(subject.samples);
      const nn::LossSums sums = device.Train(data.View(), gradients.data(), batch, kKey, {}, {}).value();
      const nn::LossSums cpu_sums = reference->Train(data.View(), expected.data(), batch, kKey, {}, {}).value();
      const double tolerance = ToleranceOf(precision);
      CHECK(sums.loss == Approx(cpu_sums.loss).epsilon(tolerance));
      CHECK(sums.count == cpu_sums.count);
      const std::vector<float> exact = Fp32Gradients(subject, data, precision);
      const double error = RelativeDistance(gradients, exact), cpu_error = RelativeDistance(expected, exact);
      const double allowed = std::max(ToleranceOf(Precision::kFp32), 2 * cpu_error);
      std::printf("%-40s %s %10lld %.3e %.3e\n", subject.name, NameOf(EncodingOf(precision)),
                  static_cast<long long>(data.count), error, allowed);  // gpu-check reads this line
      CHECK(error < allowed);
      const nn::LossSums evaluated = device.Evaluate(data.View(), batch, {}).value();
      CHECK(evaluated.loss == Approx(reference->Evaluate(data.View(), batch, {}).value().loss).epsilon(tolerance));
    }
  }
}

TEST_CASE("micro-batches add up on the device, and only the last one's gradients come back", "[device]") {
  for (const Subject& subject : Subjects()) {
    CAPTURE(subject.name);
    kernels::CpuContext cpu(1);
    const auto reference = CreateJobModel(cpu, Precision::kFp32, subject.shape).value();
    const auto device = CreateDeviceModel(Here(), Precision::kFp32, subject.shape).value();
    const Inputs data(subject, device->tensors(), Precision::kFp32);
    auto gradients = kernels::Poison<float>(data.count), expected = gradients;
    const nn::Batch batch = data.Batch(subject.samples);
    nn::TrainOptions options{.gradient_scale = 0.5, .sample_share = 0.5, .deliver = false};
    REQUIRE(device->Train(data.View(7), gradients.data(), batch, kKey, options, {}).ok());
    CHECK(std::isnan(gradients[0]));
    REQUIRE(reference->Train(data.View(7), expected.data(), batch, kKey, options, {}).ok());
    options = {.gradient_scale = 0.5, .mode = nn::GradientMode::kAdd, .sample_share = 0.5};
    REQUIRE(device->Train(data.View(7), gradients.data(), batch, kKey, options, {}).ok());
    REQUIRE(reference->Train(data.View(7), expected.data(), batch, kKey, options, {}).ok());
    CHECK(RelativeDistance(gradients, expected) < ToleranceOf(Precision::kFp32));
  }
}

TEST_CASE("gradients of 16 bits come as they would travel, statistics as they are", "[device]") {
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    const Encoding encoding = precision == Precision::kBf16 ? Encoding::kBf16 : Encoding::kFp16;
    for (const Subject& subject : Subjects()) {
      CAPTURE(subject.name, static_cast<int>(precision));
      const auto device = CreateDeviceModel(Here(), precision, subject.shape).value();
      const Inputs data(subject, device->tensors(), precision);
      auto gradients = kernels::Poison<float>(data.count);
      REQUIRE(device->Train(data.View(), gradients.data(), data.Batch(subject.samples), kKey, {}, {}).ok());
      std::vector<float> rounded = gradients;
      RoundTo(encoding, rounded);
      std::size_t at = 0;
      for (const TensorSpec& tensor : device->tensors()) {
        const auto begin = static_cast<std::ptrdiff_t>(at);
        at += tensor.ElementCount();
        const auto end = static_cast<std::ptrdiff_t>(at);
        const bool same = std::equal(gradients.begin() + begin, gradients.begin() + end, rounded.begin() + begin);
        CAPTURE(tensor.name);
        CHECK(same == (tensor.kind != TensorKind::kStatistic));
      }
    }
  }
}

TEST_CASE("weights are asked for before they are copied, and a tensor's gradient is there when it is said to be",
          "[device]") {
  const Subject subject = Named("gpt");
  const auto device = CreateDeviceModel(Here(), Precision::kFp32, subject.shape).value();
  const Inputs data(subject, device->tensors(), Precision::kFp32);
  std::vector<std::size_t> offsets = {0};
  for (const TensorSpec& tensor : device->tensors()) offsets.push_back(offsets.back() + tensor.ElementCount());
  auto whole = kernels::Poison<float>(data.count);
  REQUIRE(device->Train(data.View(), whole.data(), data.Batch(subject.samples), kKey, {}, {}).ok());

  for (int run = 0; run < 3; ++run) {
    // Weights arrive when they are requested. The host's arrays exist only for this run, so a late access is a fault.
    std::vector<float> arriving = kernels::Poison<float>(data.count), gradients = kernels::Poison<float>(data.count);
    std::vector<int> asked(device->tensors().size()), ready(device->tensors().size());
    nn::Hooks hooks;
    hooks.need_weights = [&](TensorIndex first, TensorIndex last) {
      for (TensorIndex tensor = first; tensor <= last; ++tensor) ++asked[tensor];
      std::copy(data.weights.begin() + static_cast<std::ptrdiff_t>(offsets[first]),
                data.weights.begin() + static_cast<std::ptrdiff_t>(offsets[last + 1]),
                arriving.begin() + static_cast<std::ptrdiff_t>(offsets[first]));
    };
    bool same = true;
    hooks.gradient_ready = [&](TensorIndex first, TensorIndex last) {
      for (TensorIndex tensor = first; tensor <= last; ++tensor) ++ready[tensor];
      for (std::size_t i = offsets[first]; i < offsets[last + 1]; ++i) same = same && gradients[i] == whole[i];
    };
    const WeightsView view{arriving.data(), nullptr, static_cast<std::uint64_t>(run + 1)};
    REQUIRE(device->Train(view, gradients.data(), data.Batch(subject.samples), kKey, {}, hooks).ok());
    CHECK(same);
    CHECK(asked == std::vector<int>(asked.size(), 1));
    CHECK(ready == std::vector<int>(ready.size(), 1));
  }
}

TEST_CASE("weights of a round are copied once, those of the next again", "[device]") {
  const Subject subject = Named("mlp");
  const auto device = CreateDeviceModel(Here(), Precision::kFp32, subject.shape).value();
  Inputs data(subject, device->tensors(), Precision::kFp32);
  const auto loss = [&](std::uint64_t round) {
    return device->Evaluate(data.View(round), data.Batch(subject.samples), {}).value().loss;
  };
  const double first = loss(1);
  for (float& weight : data.weights) weight *= 2;
  CHECK(loss(1) == first);
  const double second = loss(2);
  CHECK(second != first);
  CHECK(loss(0) == second);
}

TEST_CASE("the weights' memory is pinned as long as the model lives; where it cannot be, all works as before",
          "[device]") {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const Subject subject = Named("mlp");
    auto first = CreateDeviceModel(Here(), precision, subject.shape).value();
    const auto second = CreateDeviceModel(Here(), precision, subject.shape).value();
    const Inputs data(subject, first->tensors(), precision);
    const WeightsView view = data.View();
    void* const copied = const_cast<void*>(view.narrow != nullptr ? static_cast<const void*>(view.narrow) : view.wide);
    CHECK(first->PinWeights(view) == "");
    CHECK(cudaHostRegister(copied, 1, cudaHostRegisterDefault) != cudaSuccess);
    CHECK_THAT(second->PinWeights(view), Catch::Contains("could not be pinned (cudaErrorHostMemoryAlreadyRegistered)"));
    auto gradients = kernels::Poison<float>(data.count), same = gradients;
    REQUIRE(first->Train(view, gradients.data(), data.Batch(subject.samples), kKey, {}, {}).ok());
    REQUIRE(second->Train(view, same.data(), data.Batch(subject.samples), kKey, {}, {}).ok());
    CHECK(kernels::SameBits(gradients, same));
    first.reset();
    CHECK(second->PinWeights(view) == "");
  }
}

TEST_CASE("a fingerprint is the device's own, and the same each time", "[device]") {
  const auto first = CreateDeviceModel(Here(), Precision::kFp32, Named("mlp").shape).value();
  const auto second = CreateDeviceModel(Here(), Precision::kFp32, Named("gpt").shape).value();
  kernels::CpuContext cpu(1);
  const auto on_cpu = CreateJobModel(cpu, Precision::kFp32, Named("mlp").shape).value();
  const std::uint64_t fingerprint = first->NumericFingerprint().value();
  CHECK(fingerprint == second->NumericFingerprint().value());
  CHECK(first->NumericClass() == second->NumericClass());
  CHECK(first->NumericClass() != on_cpu->NumericClass());
}

TEST_CASE("a device that is not there is said so, and workers take the devices in turn", "[device]") {
  const nn::ModelShape shape = Named("mlp").shape;
  const Status none = CreateDeviceModel({.index = 99}, Precision::kFp32, shape).status();
  CHECK(none.code() == Code::kUnsupported);
  CHECK_THAT(none.message(), Catch::Contains("names device 99, counted from 0; there is"));
  DeviceOptions fourth = Here();
  fourth.local_rank = 3;
  CHECK(CreateDeviceModel(fourth, Precision::kFp32, shape).ok());
}

}  // namespace
}  // namespace capstan::train
