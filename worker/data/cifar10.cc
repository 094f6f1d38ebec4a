#include "worker/data/cifar10.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "common/base/hash.h"
#include "common/base/random.h"
#include "common/config/job/data_section.h"
#include "worker/data/file_bytes.h"

namespace capstan::train {

namespace {

constexpr std::size_t kPlane = std::size_t{kCifarSide} * kCifarSide;
constexpr std::size_t kImage = kPlane * kCifarChannels;
constexpr std::size_t kRecord = 1 + kImage;
constexpr int kTrainingFiles = 5;
constexpr std::uint64_t kViewDomain = 0x6369666172;  // separates these keys from others with the same seed

std::uint32_t Below(std::uint32_t bits, std::uint32_t bound) {
  return static_cast<std::uint32_t>((std::uint64_t{bits} * bound) >> 32);
}

std::string TrainingFile(int number) { return "data_batch_" + std::to_string(number) + ".bin"; }

// Fails if the folder has another version of the images than the binary one. The site offers three versions. Without
// this check the user would only be told that a file is missing.
Status CheckDownload(const std::filesystem::path& folder) {
  const auto has = [&](const std::string& name) {
    std::error_code error;
    return std::filesystem::exists(folder / name, error);
  };
  if (has(TrainingFile(1))) return {};
  const std::string wanted =
      "the binary version is wanted: cifar-10-binary.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html, whose "
      "folder cifar-10-batches-bin has data_batch_1.bin to data_batch_5.bin and test_batch.bin";
  for (const auto& [file, version] : {std::pair{"data_batch_1", "Python"},
                                      {"cifar-10-batches-py/data_batch_1", "Python"},
                                      {"data_batch_1.mat", "Matlab"},
                                      {"cifar-10-batches-mat/data_batch_1.mat", "Matlab"}}) {
    if (has(file)) return Invalid((folder / file).string() + " is of cifar10's " + version + " version, and " + wanted);
  }
  if (has("cifar-10-batches-bin")) {
    return Invalid(folder.string() +
                   " holds the folder cifar-10-batches-bin and no images itself; name that folder in "
                   "[data] path");
  }
  return {};
}

}  // namespace

class Cifar10Dataset::Opener {
 public:
  Status Add(const std::filesystem::path& path, Images* images) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, ReadUnpacked(path));
    if (bytes.empty() || bytes.size() % kRecord != 0) {
      return Corrupt(path.string() + ": " + std::to_string(bytes.size()) + " bytes, and an image of cifar10 has " +
                     std::to_string(kRecord) + "; copy or download it again (the binary version)");
    }
    hasher_.Add(std::uint64_t{bytes.size()});
    hasher_.Add(bytes);
    for (std::size_t record = 0; record < bytes.size() / kRecord; ++record) {
      const auto* in = reinterpret_cast<const std::uint8_t*>(bytes.data()) + record * kRecord;
      if (in[0] >= kCifarClasses) {
        return Corrupt(path.string() + ": image " + std::to_string(record) + " has class " + std::to_string(in[0]) +
                       ", and classes are 0 to 9; copy or download it again");
      }
      images->labels.push_back(in[0]);
      for (std::size_t pixel = 0; pixel < kPlane; ++pixel) {
        for (std::size_t c = 0; c < kCifarChannels; ++c) images->pixels.push_back(in[1 + c * kPlane + pixel]);
      }
    }
    return {};
  }

  std::uint64_t Digest() const { return hasher_.Digest(); }

 private:
  Hasher hasher_;
};

Result<std::unique_ptr<Dataset>> Cifar10Dataset::Open(const std::filesystem::path& folder, const DataSection& options) {
  CAPSTAN_RETURN_IF_ERROR(CheckDownload(folder));
  Opener opener;
  Images training, validation;
  for (int i = 1; i <= kTrainingFiles; ++i) {
    CAPSTAN_RETURN_IF_ERROR(opener.Add(folder / TrainingFile(i), &training));
  }
  CAPSTAN_RETURN_IF_ERROR(opener.Add(folder / "test_batch.bin", &validation));
  return std::unique_ptr<Dataset>(
      new Cifar10Dataset(std::move(training), std::move(validation), options, opener.Digest()));
}

Cifar10Dataset::Cifar10Dataset(Images training, Images validation, const DataSection& options,
                               std::uint64_t fingerprint)
    : training_(std::move(training)),
      validation_(std::move(validation)),
      crop_(options.crop),
      flip_(options.flip),
      fingerprint_(fingerprint) {
  spec_.form = SampleForm::kFeatures;
  spec_.features = kImage;
  spec_.classes = kCifarClasses;
  spec_.image = {kCifarSide, kCifarSide, kCifarChannels};
  for (std::size_t c = 0; c < kCifarChannels; ++c) {
    for (std::size_t byte = 0; byte < values_[c].size(); ++byte) {
      values_[c][byte] = (static_cast<float>(byte) / 255.0F - kCifarMean[c]) / kCifarDeviation[c];
    }
  }
}

Cifar10Dataset::View Cifar10Dataset::Draw(std::uint64_t key, std::uint32_t slot, std::uint64_t sample) const {
  const Random4 bits = Philox(key, sample, slot);
  View view;
  if (crop_) {
    view.row = Below(bits[0], 2 * kCifarPadding + 1);
    view.column = Below(bits[1], 2 * kCifarPadding + 1);
  }
  view.mirrored = flip_ && Below(bits[2], 2) == 1;
  return view;
}

void Cifar10Dataset::Write(const std::uint8_t* image, View view, float* out) const {
  constexpr auto kSide = static_cast<std::int32_t>(kCifarSide), kPadding = static_cast<std::int32_t>(kCifarPadding);
  const auto row = static_cast<std::int32_t>(view.row), column = static_cast<std::int32_t>(view.column);
  for (std::int32_t y = row - kPadding; y < row - kPadding + kSide; ++y) {
    for (std::int32_t x = 0; x < kSide; ++x, out += kCifarChannels) {
      const std::int32_t from = (view.mirrored ? kSide - 1 - x : x) + column - kPadding;
      const bool border = y < 0 || y >= kSide || from < 0 || from >= kSide;
      for (std::uint32_t c = 0; c < kCifarChannels; ++c) {
        out[c] = values_[c][border ? 0 : image[(y * kSide + from) * static_cast<std::int32_t>(kCifarChannels) + c]];
      }
    }
  }
}

Status Cifar10Dataset::Fill(std::span<const std::uint64_t> samples, Split split, const DrawKey& key,
                            BatchBuffer* batch) const {
  const Images& from = images(split);
  const std::uint64_t draw_key = PhiloxKey(key.seed, key.step, kViewDomain);
  batch->samples = static_cast<std::uint32_t>(samples.size());
  batch->tokens.clear();
  batch->inputs.resize(samples.size() * kImage);
  batch->targets.resize(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    CAPSTAN_CHECK(samples[i] < count(split));
    const View view = split == Split::kTraining ? Draw(draw_key, key.slot, samples[i]) : View{};
    Write(from.pixels.data() + samples[i] * kImage, view, batch->inputs.data() + i * kImage);
    batch->targets[i] = from.labels[samples[i]];
  }
  return {};
}

}  // namespace capstan::train
