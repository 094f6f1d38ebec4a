// Dataset: numbered samples to train on and held-out samples to validate with.
//
// Kind:   immutable once opened; shared by threads.
// Limits: files are held in memory whole, kFileBytesMax each; those of tokens are mapped.
// Fails:  kInvalid, kCorrupt: which file, where in it, what to do.
// Why:    a sample is a number, so what a slot works on at a step is arithmetic, and any worker can do it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/config/job/forward.h"

namespace capstan::train {

enum class SampleForm : std::uint8_t { kFeatures, kTokens };

// An image's numbers lie row by row, and a pixel's channels together. All 0: no image.
struct ImageShape {
  std::uint32_t height = 0, width = 0, channels = 0;
  bool operator==(const ImageShape&) const = default;
};

struct SampleSpec {
  SampleForm form = SampleForm::kFeatures;
  // kFeatures: a row of numbers and its class.
  std::uint32_t features = 0;
  std::uint32_t classes = 0;
  ImageShape image = {};
  // kTokens: `context` tokens, and for each the token that follows it.
  std::uint32_t vocabulary = 0;
  std::uint32_t context = 0;
  bool operator==(const SampleSpec&) const = default;
};

// Of data that says what image a row is.
ImageShape ImageOf(const DataSection& data);

enum class Split : std::uint8_t { kTraining, kValidation };

// What the random changes of a training sample follow from, together with its number.
struct DrawKey {
  std::uint64_t seed = 0, step = 0;
  std::uint32_t slot = 0;
};

// The caller's, filled again and again without new allocations.
struct BatchBuffer {
  std::uint32_t samples = 0;
  std::vector<float> inputs;          // kFeatures: [samples, features]
  std::vector<std::int32_t> tokens;   // kTokens: [samples, context]
  std::vector<std::int32_t> targets;  // kFeatures: [samples]; kTokens: [samples, context]
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const SampleSpec& spec() const = 0;
  // Samples of a split are numbered from 0.
  virtual std::uint64_t count(Split split) const = 0;
  // Every number must be below count(split). Held-out samples are the same under every key. Fails with kCorrupt where
  // what was opened is not there any more: which file, what changed.
  virtual Status Fill(std::span<const std::uint64_t> samples, Split split, const DrawKey& key,
                      BatchBuffer* batch) const = 0;
  // Equal for equal data, wherever it lies: content, order and names of the files within a folder.
  virtual std::uint64_t fingerprint() const = 0;
};

// Paths of the job are resolved below `data_root`, and one that leads out of it is refused; with "/" any will do.
Result<std::unique_ptr<Dataset>> OpenDataset(const JobConfig& config, const std::filesystem::path& data_root);

}  // namespace capstan::train
