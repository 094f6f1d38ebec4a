// Computes one training step's gradients of a resnet, for comparison with another trainer:
//   resnet_step HEIGHT WIDTH CHANNELS CLASSES DEPTH WIDTH SAMPLES FOLDER
// The first WIDTH is the image's, the second one the network's. It writes into FOLDER:
//   weights.safetensors     every tensor, running statistics too
//   inputs.bin, targets.bin [samples, height, width, channels] fp32, [samples] int32
//   gradients.safetensors   of the mean loss; for a running statistic, the batch's statistic
//   losses.json             {"train", "evaluate"}: sums over the samples
//   curves.json             {"double", "fp32", "bf16"}: mean losses of gradient descent on the batch
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/base/random.h"
#include "common/data/number16.h"
#include "server/shard/initial_weights.h"
#include "tests/parity/local_job.h"

namespace capstan::parity {

namespace {

constexpr std::uint64_t kSeed = 11;
constexpr double kRate = 0.05;
constexpr int kLongCurve = 50, kShortCurve = 3;

struct Step {
  nn::ResnetShape shape;
  std::int64_t samples = 0;
};

// Makes the weights as servers do, but with other values where servers fill in ones and zeros, because those would make
// channels alike.
std::vector<float> MakeWeights(const Catalog& catalog) {
  std::vector<float> weights(catalog.element_count());
  for (TensorIndex i = 0; i < catalog.tensors().size(); ++i) {
    TensorSpec tensor = catalog.tensors()[i];
    const bool is_one = tensor.init.kind == InitKind::kOnes;
    if (is_one || tensor.init.kind == InitKind::kZeros) tensor.init = {InitKind::kUniform, 0.3F};
    const auto values = std::span(weights).subspan(catalog.flat_offset(i), tensor.ElementCount());
    server::FillInitialWeights(kSeed, tensor, 0, values);
    for (float& value : values) value += is_one ? 1.0F : 0.0F;
  }
  return weights;
}

template <class Value>
void Write(const std::string& path, const std::vector<Value>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(Value)));
}

// Returns the mean losses of gradient descent on one batch. The model computes with weights of type T. The descent
// updates weights in Wide<T>, as servers do.
template <class T>
Result<std::vector<double>> Curve(const nn::ResnetShape& shape, const Catalog& catalog, const nn::Batch& batch,
                                  const std::vector<float>& first, int steps) {
  kernels::CpuContext context(1);
  CAPSTAN_ASSIGN_OR_RETURN(const auto model, nn::CreateResnet<T>(context, shape));
  std::vector<Wide<T>> weights(first.begin(), first.end()), gradients(first.size());
  std::vector<T> stored(first.size());
  const auto samples = static_cast<double>(batch.samples);
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < weights.size(); ++i) stored[i] = Narrow<T>(weights[i]);
    const nn::TrainOptions options{.gradient_scale = 1.0 / samples};
    losses.push_back(model->Train(stored.data(), gradients.data(), batch, {}, options, {}).loss / samples);
    for (const Block& block : catalog.blocks()) {
      if (block.kind == TensorKind::kStatistic) continue;
      for (std::uint64_t i = block.flat_offset; i < block.flat_offset + block.count; ++i) {
        weights[i] -= static_cast<Wide<T>>(kRate) * gradients[i];
      }
    }
  }
  return losses;
}

std::string ToJson(const std::vector<double>& values) {
  std::ostringstream text;
  text.precision(17);
  for (std::size_t i = 0; i < values.size(); ++i) text << (i == 0 ? "[" : ", ") << values[i];
  return text.str() + "]";
}

Status WriteCurves(const Step& step, const Catalog& catalog, const nn::Batch& batch, const std::vector<float>& weights,
                   const std::string& path) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto full, Curve<double>(step.shape, catalog, batch, weights, kLongCurve));
  CAPSTAN_ASSIGN_OR_RETURN(const auto fp32, Curve<float>(step.shape, catalog, batch, weights, kShortCurve));
  CAPSTAN_ASSIGN_OR_RETURN(const auto bf16, Curve<Bf16>(step.shape, catalog, batch, weights, kShortCurve));
  std::ofstream file(path);
  file << "{\"double\": " << ToJson(full) << ", \"fp32\": " << ToJson(fp32) << ", \"bf16\": " << ToJson(bf16) << "}\n";
  return {};
}

Status Run(const Step& step, const std::string& folder) {
  kernels::CpuContext context(1);
  CAPSTAN_ASSIGN_OR_RETURN(const auto model, nn::CreateResnet<float>(context, step.shape));
  CAPSTAN_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Create(model->tensors()));
  const std::vector<float> weights = MakeWeights(catalog);
  std::vector<float> inputs(static_cast<std::size_t>(step.samples * step.shape.image.elements()));
  RandomStream stream(kSeed);
  for (float& value : inputs) value = static_cast<float>(3 * stream.Unit() - 1);
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < step.samples; ++i) {
    targets.push_back(static_cast<std::int32_t>(stream.Below(static_cast<std::uint64_t>(step.shape.classes))));
  }
  const nn::Batch batch{.samples = step.samples, .inputs = inputs, .tokens = {}, .targets = targets};
  std::vector<float> gradients(weights.size());
  const nn::TrainOptions options{.gradient_scale = 1.0 / static_cast<double>(step.samples)};
  const nn::LossSums trained = model->Train(weights.data(), gradients.data(), batch, {}, options, {});
  const nn::LossSums evaluated = model->Evaluate(weights.data(), batch, {});
  Write(folder + "/inputs.bin", inputs);
  Write(folder + "/targets.bin", targets);
  std::ofstream losses(folder + "/losses.json");
  losses.precision(17);
  losses << "{\"train\": " << trained.loss << ", \"evaluate\": " << evaluated.loss << "}\n";
  CAPSTAN_RETURN_IF_ERROR(WriteCurves(step, catalog, batch, weights, folder + "/curves.json"));
  CAPSTAN_RETURN_IF_ERROR(WriteTensors(folder + "/weights.safetensors", catalog, weights));
  return WriteTensors(folder + "/gradients.safetensors", catalog, gradients);
}

}  // namespace

}  // namespace capstan::parity

int main(int argc, char** argv) {
  if (argc != 9) {
    std::fprintf(stderr, "usage: %s HEIGHT WIDTH CHANNELS CLASSES DEPTH WIDTH SAMPLES FOLDER\n", argv[0]);
    return 2;
  }
  const auto number = [&](int i) { return std::atoll(argv[i]); };
  const capstan::Status status = capstan::parity::Run({.shape = {.image = {number(1), number(2), number(3)},
                                                                 .classes = number(4),
                                                                 .depth = number(5),
                                                                 .width = number(6)},
                                                       .samples = number(7)},
                                                      argv[8]);
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", argv[0], status.message().c_str());
  return status.ok() ? 0 : 1;
}
