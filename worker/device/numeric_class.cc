#include "worker/device/numeric_class.h"

#include <utility>
#include <vector>

#include "common/base/hash.h"
#include "common/data/catalog.h"
#include "common/data/encoding.h"
#include "kernels/matmul.h"
#include "kernels/random_fill.h"

namespace capstan::train {

namespace {

constexpr std::uint64_t kProbeKey = 0x0CA957A4;

constexpr std::int64_t kRows = 37, kFeatures = 33, kClasses = 7, kVocabulary = 29, kContext = 24;

// Fixed input data for the models whose gradients are hashed.
struct ProbeData {
  ProbeData() : inputs(kRows * kFeatures) {
    kernels::FillUniform(kProbeKey + 1, 0, 1.0F, inputs);
    for (std::int64_t i = 0; i < kRows; ++i) classes.push_back(static_cast<std::int32_t>(i % kClasses));
    for (std::int64_t i = 0; i < 3 * kContext; ++i) {
      tokens.push_back(static_cast<std::int32_t>(i * 7 % kVocabulary));
      next.push_back(static_cast<std::int32_t>((i + 1) * 7 % kVocabulary));
    }
  }
  nn::Batch rows() const { return {.samples = kRows, .inputs = inputs, .tokens = {}, .targets = classes}; }
  nn::Batch texts() const { return {.samples = 3, .inputs = {}, .tokens = tokens, .targets = next}; }

  std::vector<float> inputs;
  std::vector<std::int32_t> classes, tokens, next;
};

Status AddProbe(JobModel& model, Precision precision, const nn::Batch& batch, Hasher* hasher) {
  std::uint64_t count = 0;
  for (const TensorSpec& tensor : model.tensors()) count += tensor.ElementCount();
  std::vector<float> weights(count), gradients(count);
  kernels::FillUniform(kProbeKey, 0, 0.25F, weights);
  std::vector<std::uint16_t> narrow(precision == Precision::kFp32 ? 0 : count);
  if (!narrow.empty()) {
    const Encoding encoding = precision == Precision::kBf16 ? Encoding::kBf16 : Encoding::kFp16;
    Encode(encoding, weights, reinterpret_cast<std::byte*>(narrow.data()));
  }
  const WeightsView view{weights.data(), narrow.empty() ? nullptr : narrow.data()};
  CAPSTAN_ASSIGN_OR_RETURN(const nn::LossSums sums,
                           model.Train(view, gradients.data(), batch, {.seed = kProbeKey}, {}, {}));
  hasher->Add(std::as_bytes(std::span(gradients)));
  hasher->Add(std::as_bytes(std::span(&sums.loss, 1)));
  return {};
}

}  // namespace

std::string NumericClass(Precision precision, const std::string& where) {
  const char* const name = precision == Precision::kBf16 ? "bf16" : precision == Precision::kFp16 ? "fp16" : "fp32";
  return std::string("capstan ") + CAPSTAN_VERSION + ", " + CAPSTAN_COMPILER + ", " + name + ", " + where;
}

std::string CpuName(Precision precision) {
  const std::string products = kernels::MatmulDispatchName();
  const bool own_bits = precision == Precision::kBf16 && products.ends_with("-bf16");
  return own_bits ? "cpu " + products : "cpu";
}

Result<std::uint64_t> NumericFingerprint(Precision precision, const ModelMaker& make) {
  const ProbeData data;
  const nn::ImageSize image{.height = 11, .width = 3, .channels = 1};
  const std::pair<nn::ModelShape, nn::Batch> probes[] = {
      {nn::MlpShape{.features = kFeatures, .classes = kClasses, .hidden = {300}, .dropout = 0.1}, data.rows()},
      {nn::ConvnetShape{.image = image, .classes = kClasses, .channels = {40}, .hidden = {30}}, data.rows()},
      {nn::ResnetShape{.image = image, .classes = kClasses, .depth = 18, .width = 4}, data.rows()},
      {nn::GptShape{
           .vocabulary = kVocabulary, .context = kContext, .layers = 1, .heads = 2, .width = 48, .dropout = 0.1},
       data.texts()}};
  Hasher hasher;
  for (const auto& [shape, batch] : probes) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<JobModel> model, make(shape));
    CAPSTAN_RETURN_IF_ERROR(AddProbe(*model, precision, batch, &hasher));
  }
  return hasher.Digest();
}

}  // namespace capstan::train
