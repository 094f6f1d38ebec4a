// Cifar10Dataset: the CIFAR-10 images, in the binary format of their authors.
//
// Kind:   immutable; shared by threads.
// Shapes: inputs are [samples, 32, 32, 3]: rows, columns, channels red, green, blue. A record of a file is its class,
//         then a plane of 32 rows for each channel.
// Types:  an input is (byte / 255 - mean) / deviation in fp32; mean and deviation are the channel's over the 50,000
//         training images.
// Limits: one byte of memory for each number.
// Fails:  kInvalid: a missing file, or another version of the images. kCorrupt: a truncated file, or a class above 9.
// Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009;
//         https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version".
//
// data_batch_1.bin to data_batch_5.bin train, test_batch.bin is held out. If the job file asks for it, training images
// are cropped (a window of 32 x 32 at a random place of the image with 4 black pixels around it) and flipped (half of
// them, left to right). The choices follow from (seed, step, slot, sample).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/config/job/forward.h"
#include "worker/data/dataset.h"

namespace capstan::train {

inline constexpr std::uint32_t kCifarSide = 32, kCifarChannels = 3, kCifarClasses = 10, kCifarPadding = 4;
inline constexpr std::array<float, kCifarChannels> kCifarMean = {0.4914F, 0.4822F, 0.4465F};
inline constexpr std::array<float, kCifarChannels> kCifarDeviation = {0.2470F, 0.2435F, 0.2616F};

class Cifar10Dataset : public Dataset {
 public:
  static Result<std::unique_ptr<Dataset>> Open(const std::filesystem::path& folder, const DataSection& options);

  const SampleSpec& spec() const override { return spec_; }
  std::uint64_t count(Split split) const override { return images(split).labels.size(); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  Status Fill(std::span<const std::uint64_t> samples, Split split, const DrawKey& key,
              BatchBuffer* batch) const override;

 private:
  struct Images {
    std::vector<std::uint8_t> pixels;  // [images, 32, 32, 3]
    std::vector<std::uint8_t> labels;  // [images]
  };
  class Opener;
  // The position of the 32 x 32 window in the padded image, and whether the image is mirrored.
  struct View {
    std::uint32_t row = kCifarPadding, column = kCifarPadding;
    bool mirrored = false;
  };

  Cifar10Dataset(Images training, Images validation, const DataSection& options, std::uint64_t fingerprint);
  const Images& images(Split split) const { return split == Split::kTraining ? training_ : validation_; }
  View Draw(std::uint64_t key, std::uint32_t slot, std::uint64_t sample) const;
  void Write(const std::uint8_t* image, View view, float* out) const;

  const Images training_, validation_;
  const bool crop_, flip_;
  const std::uint64_t fingerprint_;
  SampleSpec spec_;
  std::array<std::array<float, 256>, kCifarChannels> values_;  // by channel and byte
};

}  // namespace capstan::train
