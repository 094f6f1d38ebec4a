#include "worker/data/synthetic_dataset.h"

#include <algorithm>

#include "common/base/hash.h"
#include "common/base/random.h"
#include "common/config/job/data_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job_config.h"

namespace capstan::train {

namespace {

// Separates the random keys of one seed by purpose.
enum Domain : std::uint64_t {
  kCentres = 0x73796e31,
  kNoise = 0x73796e32,
  kSuccessors = 0x73796e33,
  kWalks = 0x73796e34
};

constexpr std::uint32_t kSuccessorsEach = 4;

struct SplitCounts {
  std::uint64_t training = 0, validation = 0;
  std::uint64_t count(Split split) const { return split == Split::kTraining ? training : validation; }
  // Returns the sample's number among all samples: first the training samples, then those for validation.
  std::uint64_t Locate(Split split, std::uint64_t sample) const {
    CAPSTAN_CHECK(sample < count(split));
    return split == Split::kTraining ? sample : training + sample;
  }
};

Result<SplitCounts> CountSplits(const DataSection& data) {
  SplitCounts counts;
  counts.validation = static_cast<std::uint64_t>(static_cast<double>(data.samples) * data.validation);
  counts.training = data.samples - counts.validation;
  if (counts.training > 0 && (data.validation == 0 || counts.validation > 0)) return counts;
  return Invalid("[data] samples = " + std::to_string(data.samples) +
                 " with validation = " + std::to_string(data.validation) + " leave a split empty; use more samples");
}

// Returns the sum of four uniform numbers minus 2: roughly normal with mean 0, computed without a logarithm.
float Noise(const Random4& bits) {
  float sum = -2.0F;
  for (std::uint32_t word : bits) sum += UnitFloat(word);
  return sum;
}

class SyntheticClasses : public Dataset {
 public:
  SyntheticClasses(std::uint64_t seed, SplitCounts counts, SampleSpec spec, std::uint64_t fingerprint)
      : noise_key_(PhiloxKey(seed, 0, kNoise)), counts_(counts), spec_(spec), fingerprint_(fingerprint) {
    const std::uint64_t centre_key = PhiloxKey(seed, 0, kCentres);
    centres_.resize(std::size_t{spec.classes} * spec.features);
    for (std::size_t i = 0; i < centres_.size(); ++i)
      centres_[i] = 2.0F * UnitFloat(Philox(centre_key, i, 0)[0]) - 1.0F;
  }

  const SampleSpec& spec() const override { return spec_; }
  std::uint64_t count(Split split) const override { return counts_.count(split); }
  std::uint64_t fingerprint() const override { return fingerprint_; }

  Status Fill(std::span<const std::uint64_t> samples, Split split, const DrawKey& /*key*/,
              BatchBuffer* batch) const override {
    const std::size_t features = spec_.features;
    batch->samples = static_cast<std::uint32_t>(samples.size());
    batch->tokens.clear();
    batch->inputs.resize(samples.size() * features);
    batch->targets.resize(samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::uint64_t number = counts_.Locate(split, samples[i]);
      const std::size_t label = Philox(noise_key_, features, number)[0] % spec_.classes;
      const float* centre = centres_.data() + label * features;
      float* out = batch->inputs.data() + i * features;
      for (std::size_t j = 0; j < features; ++j) out[j] = centre[j] + Noise(Philox(noise_key_, j, number));
      batch->targets[i] = static_cast<std::int32_t>(label);
    }
    return {};
  }

 private:
  const std::uint64_t noise_key_;
  const SplitCounts counts_;
  const SampleSpec spec_;
  const std::uint64_t fingerprint_;
  std::vector<float> centres_;  // [classes, features]
};

class SyntheticTokens : public Dataset {
 public:
  SyntheticTokens(std::uint64_t seed, SplitCounts counts, SampleSpec spec, std::uint64_t fingerprint)
      : walk_key_(PhiloxKey(seed, 0, kWalks)), counts_(counts), spec_(spec), fingerprint_(fingerprint) {
    const std::uint64_t successor_key = PhiloxKey(seed, 0, kSuccessors);
    successors_.resize(std::size_t{spec.vocabulary} * kSuccessorsEach);
    for (std::size_t i = 0; i < successors_.size(); ++i) {
      successors_[i] = static_cast<std::int32_t>(Philox(successor_key, i, 0)[0] % spec.vocabulary);
    }
  }

  const SampleSpec& spec() const override { return spec_; }
  std::uint64_t count(Split split) const override { return counts_.count(split); }
  std::uint64_t fingerprint() const override { return fingerprint_; }

  Status Fill(std::span<const std::uint64_t> samples, Split split, const DrawKey& /*key*/,
              BatchBuffer* batch) const override {
    const std::size_t context = spec_.context;
    batch->samples = static_cast<std::uint32_t>(samples.size());
    batch->inputs.clear();
    batch->tokens.resize(samples.size() * context);
    batch->targets.resize(samples.size() * context);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      RandomStream walk(walk_key_, counts_.Locate(split, samples[i]));
      auto token = static_cast<std::int32_t>(walk.Next() % spec_.vocabulary);
      for (std::size_t j = i * context; j < (i + 1) * context; ++j) {
        batch->tokens[j] = token;
        const std::uint32_t choice = walk.Next() % kSuccessorsEach;
        token = successors_[static_cast<std::size_t>(token) * kSuccessorsEach + choice];
        batch->targets[j] = token;
      }
    }
    return {};
  }

 private:
  const std::uint64_t walk_key_;
  const SplitCounts counts_;
  const SampleSpec spec_;
  const std::uint64_t fingerprint_;
  std::vector<std::int32_t> successors_;  // [vocabulary, kSuccessorsEach]
};

}  // namespace

Result<std::unique_ptr<Dataset>> CreateSynthetic(const JobConfig& config) {
  CAPSTAN_ASSIGN_OR_RETURN(const SplitCounts counts, CountSplits(config.data));
  SampleSpec spec;
  if (config.model.kind == ModelKind::kGpt) {
    spec = {.form = SampleForm::kTokens, .vocabulary = config.data.vocabulary, .context = config.model.context};
  } else {
    spec = {.form = SampleForm::kFeatures,
            .features = config.data.row_features(),
            .classes = config.data.classes,
            .image = ImageOf(config.data)};
  }
  Hasher hasher;
  for (std::uint64_t number :
       {config.job.seed, counts.training, counts.validation, std::uint64_t{spec.features}, std::uint64_t{spec.classes},
        std::uint64_t{spec.vocabulary}, std::uint64_t{spec.context}}) {
    hasher.Add(number);
  }
  const std::uint64_t seed = config.job.seed, fingerprint = hasher.Digest();
  if (spec.form == SampleForm::kTokens) {
    return std::unique_ptr<Dataset>(new SyntheticTokens(seed, counts, spec, fingerprint));
  }
  return std::unique_ptr<Dataset>(new SyntheticClasses(seed, counts, spec, fingerprint));
}

}  // namespace capstan::train
