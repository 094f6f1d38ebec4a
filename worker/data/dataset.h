// Dataset: numbered samples to train on and held-out samples to validate with.
//
// Kind:   immutable once opened; shared by threads.
// Limits: whole files in memory, of at most kFileBytesMax each; files of tokens stay open, and are read as needed.
// Fails:  kInvalid, kCorrupt: the message names the file, the position and what to do.
// Why:    a sample is named by its number, so any worker can compute which samples a slot has at a step.
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

// Images are stored row by row with a pixel's channels together. All three are 0 if a sample is not an image.
struct ImageShape {
  std::uint32_t height = 0, width = 0, channels = 0;
  bool operator==(const ImageShape&) const = default;
};

struct SampleSpec {
  SampleForm form = SampleForm::kFeatures;
  // kFeatures: a sample is a row of numbers and its class.
  std::uint32_t features = 0;
  std::uint32_t classes = 0;
  ImageShape image = {};
  // kTokens: a sample is `context` tokens, and for each of them the token that follows it.
  std::uint32_t vocabulary = 0;
  std::uint32_t context = 0;
  bool operator==(const SampleSpec&) const = default;
};

// Returns the image shape that the [data] section gives; all 0 if none.
ImageShape ImageOf(const DataSection& data);

enum class Split : std::uint8_t { kTraining, kValidation };

// A DrawKey and a sample's number determine how a training sample is changed at random (cropped, flipped).
struct DrawKey {
  std::uint64_t seed = 0, step = 0;
  std::uint32_t slot = 0;
};

// The arrays of a batch. The caller owns and reuses them, so that Fill need not allocate.
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
  // Returns the number of samples of a split. They are numbered from 0.
  virtual std::uint64_t count(Split split) const = 0;
  // Puts the samples into `batch`. Each number must be below count(split). Validation samples do not depend on `key`.
  // kCorrupt: a file of tokens has changed since it was opened; the message says which and how.
  virtual Status Fill(std::span<const std::uint64_t> samples, Split split, const DrawKey& key,
                      BatchBuffer* batch) const = 0;
  // Returns a hash that is equal for equal data in any location. It depends on the files' contents; for a folder of
  // text or tokens also on their names below that folder.
  virtual std::uint64_t fingerprint() const = 0;
};

// Opens the job's data. Paths are resolved below `data_root`; a path that leads out of it is refused. "/" allows any
// path.
Result<std::unique_ptr<Dataset>> OpenDataset(const JobConfig& config, const std::filesystem::path& data_root);

}  // namespace capstan::train
