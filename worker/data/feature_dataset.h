// FeatureDataset: rows of numbers with a class each, held in memory.
//
// Kind:   immutable; shared by threads.
// Types:  Input is the stored type: uint8_t for images, float for tables.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "worker/data/dataset.h"
#include "worker/data/split_table.h"

namespace capstan::train {

template <class Input>
struct FeatureTable {
  std::uint32_t features = 0;
  std::uint32_t classes = 0;         // largest label + 1
  ImageShape image;                  // shape of a row, if rows are images
  std::vector<Input> inputs;         // [rows, features]
  std::vector<std::int32_t> labels;  // [rows]
  std::uint64_t fingerprint = 0;
};

template <class Input>
class FeatureDataset : public Dataset {
 public:
  // Fill divides the stored inputs by `scale`.
  FeatureDataset(FeatureTable<Input> table, SplitTable split, float scale)
      : table_(std::move(table)), split_(std::move(split)), scale_(scale) {
    spec_.form = SampleForm::kFeatures;
    spec_.features = table_.features;
    spec_.classes = table_.classes;
    spec_.image = table_.image;
  }

  const SampleSpec& spec() const override { return spec_; }
  std::uint64_t count(Split split) const override { return split_.count(split); }
  std::uint64_t fingerprint() const override { return table_.fingerprint; }

  Status Fill(std::span<const std::uint64_t> samples, Split split, const DrawKey& /*key*/,
              BatchBuffer* batch) const override {
    const std::size_t features = table_.features;
    batch->samples = static_cast<std::uint32_t>(samples.size());
    batch->tokens.clear();
    batch->inputs.resize(samples.size() * features);
    batch->targets.resize(samples.size());
    float* out = batch->inputs.data();
    for (std::size_t i = 0; i < samples.size(); ++i) {
      CAPSTAN_CHECK(samples[i] < count(split));
      const std::uint64_t row = split_.Locate(split, samples[i]);
      const Input* in = table_.inputs.data() + row * features;
      for (std::size_t j = 0; j < features; ++j) *out++ = static_cast<float>(in[j]) / scale_;
      batch->targets[i] = table_.labels[row];
    }
    return {};
  }

 private:
  const FeatureTable<Input> table_;
  const SplitTable split_;
  const float scale_;
  SampleSpec spec_;
};

}  // namespace capstan::train
