#include "worker/train/numeric_class.h"

#include <vector>

#include "common/catalog.h"
#include "common/hash.h"
#include "common/random.h"
#include "kernels/matmul.h"
#include "kernels/random_fill.h"
#include "worker/nn/model.h"

namespace capstan::train {

namespace {

constexpr std::uint64_t kProbeKey = 0x0CA957A4;

template <class T>
constexpr const char* kPrecisionName = "fp32";
template <>
constexpr const char* kPrecisionName<Bf16> = "bf16";
template <>
constexpr const char* kPrecisionName<Half> = "fp16";

template <class T>
void AddProbe(nn::Model<T>& model, const nn::Batch& batch, Hasher* hasher) {
  std::uint64_t count = 0;
  for (const TensorSpec& tensor : model.tensors()) count += tensor.ElementCount();
  std::vector<float> wide_weights(count), gradients(count);
  kernels::FillUniform(kProbeKey, 0, 0.25F, wide_weights);
  std::vector<T> weights(count);
  for (std::size_t i = 0; i < count; ++i) weights[i] = Narrow<T>(wide_weights[i]);
  const nn::LossSums sums = model.Train(weights.data(), gradients.data(), batch, {.seed = kProbeKey}, {}, {});
  hasher->Add(std::as_bytes(std::span(gradients)));
  hasher->Add(std::as_bytes(std::span(&sums.loss, 1)));
}

}  // namespace

template <class T>
std::string NumericClass() {
  const std::string products = kernels::MatmulDispatchName();
  const bool own_bits = std::is_same_v<T, Bf16> && products.ends_with("-bf16");
  return std::string("capstan ") + CAPSTAN_VERSION + ", g++ " + __VERSION__ + ", " + kPrecisionName<T> + ", cpu" +
         (own_bits ? " " + products : "");
}

template <class T>
std::uint64_t NumericFingerprint(kernels::CpuContext& context) {
  Hasher hasher;
  constexpr std::int64_t kRows = 37, kFeatures = 33, kClasses = 7, kVocabulary = 29, kContext = 24;
  std::vector<float> inputs(kRows * kFeatures);
  kernels::FillUniform(kProbeKey + 1, 0, 1.0F, inputs);
  std::vector<std::int32_t> classes, tokens, next;
  for (std::int64_t i = 0; i < kRows; ++i) classes.push_back(static_cast<std::int32_t>(i % kClasses));
  for (std::int64_t i = 0; i < 3 * kContext; ++i) {
    tokens.push_back(static_cast<std::int32_t>(i * 7 % kVocabulary));
    next.push_back(static_cast<std::int32_t>((i + 1) * 7 % kVocabulary));
  }
  auto mlp = nn::CreateMlp<T>(context, {.features = kFeatures, .classes = kClasses, .hidden = {300}, .dropout = 0.1});
  auto gpt = nn::CreateGpt<T>(
      context, {.vocabulary = kVocabulary, .context = kContext, .layers = 1, .heads = 2, .width = 48, .dropout = 0.1});
  const nn::ImageSize image{.height = 11, .width = 3, .channels = 1};
  auto convnet = nn::CreateConvnet<T>(context, {.image = image, .classes = kClasses, .channels = {40}, .hidden = {30}});
  auto resnet = nn::CreateResnet<T>(context, {.image = image, .classes = kClasses, .depth = 18, .width = 4});
  CAPSTAN_CHECK(mlp.ok() && convnet.ok() && resnet.ok() && gpt.ok());
  const nn::Batch rows{.samples = kRows, .inputs = inputs, .tokens = {}, .targets = classes};
  AddProbe(**mlp, rows, &hasher);
  AddProbe(**convnet, rows, &hasher);
  AddProbe(**resnet, rows, &hasher);
  AddProbe(**gpt, {.samples = 3, .inputs = {}, .tokens = tokens, .targets = next}, &hasher);
  return hasher.Digest();
}

template std::string NumericClass<float>();
template std::string NumericClass<Bf16>();
template std::string NumericClass<Half>();
template std::uint64_t NumericFingerprint<float>(kernels::CpuContext&);
template std::uint64_t NumericFingerprint<Bf16>(kernels::CpuContext&);
template std::uint64_t NumericFingerprint<Half>(kernels::CpuContext&);

}  // namespace capstan::train
