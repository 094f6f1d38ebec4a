// WindowDataset: samples are windows of one long sequence of tokens, which the derived class provides.
//
// Kind:   immutable; shared by threads.
//
// Sample i is tokens [i * context, (i + 1) * context], the last one only as a target. So no token is a target twice in
// an epoch.
#pragma once

#include <utility>

#include "common/base/status.h"
#include "worker/data/dataset.h"
#include "worker/data/split_table.h"

namespace capstan::train {

class WindowDataset : public Dataset {
 public:
  const SampleSpec& spec() const override { return spec_; }
  std::uint64_t count(Split split) const override { return split_.count(split); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  Status Fill(std::span<const std::uint64_t> samples, Split split, const DrawKey& /*key*/,
              BatchBuffer* batch) const override {
    const std::size_t context = spec_.context;
    batch->samples = static_cast<std::uint32_t>(samples.size());
    batch->inputs.clear();
    batch->tokens.resize(samples.size() * context);
    batch->targets.resize(samples.size() * context);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      CAPSTAN_CHECK(samples[i] < count(split));
      const std::uint64_t begin = split_.Locate(split, samples[i]) * context;
      CAPSTAN_RETURN_IF_ERROR(Copy(begin, context, batch->tokens.data() + i * context));
      CAPSTAN_RETURN_IF_ERROR(Copy(begin + 1, context, batch->targets.data() + i * context));
    }
    return {};
  }

 protected:
  // `fingerprint`: hash of all tokens and of the files' names.
  WindowDataset(SplitTable split, std::uint32_t vocabulary, std::uint32_t context, std::uint64_t fingerprint)
      : split_(std::move(split)), fingerprint_(fingerprint) {
    spec_.form = SampleForm::kTokens;
    spec_.vocabulary = vocabulary;
    spec_.context = context;
  }

 private:
  // Copies tokens [begin, begin + count) of the sequence to `out`. Must fail if one is not below the vocabulary.
  virtual Status Copy(std::uint64_t begin, std::size_t count, std::int32_t* out) const = 0;

  const SplitTable split_;
  const std::uint64_t fingerprint_;
  SampleSpec spec_;
};

}  // namespace capstan::train
