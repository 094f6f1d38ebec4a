#include "worker/train/sample_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "common/config/job/data_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job_config.h"
#include "kernels/base/context.h"
#include "worker/device/model_factory.h"

namespace capstan::train {

namespace {

constexpr std::uint32_t kByteVocabulary = 256;

// Draws an index with probability proportional to exp(logit / temperature).
std::int32_t Draw(std::span<const float> logits, double temperature, RandomStream* random) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> cumulative;
  double total = 0;
  for (float logit : logits)
    cumulative.push_back(total += std::exp((static_cast<double>(logit) - largest) / temperature));
  const double wanted = random->Unit() * total;
  const auto place = std::upper_bound(cumulative.begin(), cumulative.end(), wanted);
  return static_cast<std::int32_t>(std::min<std::ptrdiff_t>(place - cumulative.begin(), std::ssize(logits) - 1));
}

}  // namespace

Result<std::string> SampleText(const JobConfig& config, std::span<const float> weights, std::string_view prompt,
                               const SampleTextOptions& options) {
  if (config.model.kind != ModelKind::kGpt || config.data.kind != DataKind::kText) {
    return Invalid("only a gpt that learned from bytes (data.kind = \"text\") writes text");
  }
  kernels::CpuContext context(1);
  const SampleSpec spec{.form = SampleForm::kTokens, .vocabulary = kByteVocabulary, .context = config.model.context};
  CAPSTAN_ASSIGN_OR_RETURN(const nn::ModelShape shape, ShapeOfModel(config, spec));
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<nn::Model<float>> model, nn::CreateModel<float>(context, shape));
  std::uint64_t elements = 0;
  for (const TensorSpec& tensor : model->tensors()) elements += tensor.ElementCount();
  if (elements != weights.size()) {
    return Invalid("the model has " + std::to_string(elements) + " weights, not " + std::to_string(weights.size()));
  }
  std::vector<std::int32_t> tokens;
  for (char c : prompt) tokens.push_back(static_cast<unsigned char>(c));
  if (tokens.empty()) tokens.push_back('\n');
  RandomStream random(options.seed, 0x7E47);
  std::string text;
  while (text.size() < options.bytes) {
    const std::size_t seen = std::min<std::size_t>(tokens.size(), config.model.context);
    const std::span<const std::int32_t> window(tokens.data() + tokens.size() - seen, seen);
    CAPSTAN_ASSIGN_OR_RETURN(const std::span<const float> logits, model->NextTokenLogits(weights.data(), window));
    tokens.push_back(Draw(logits, options.temperature, &random));
    text.push_back(static_cast<char>(tokens.back()));
  }
  return text;
}

}  // namespace capstan::train
