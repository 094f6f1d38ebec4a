// The target reads the input as two files in MNIST's format. Either the reader refuses them, or it returns a table of
// their size. The first two bytes are the size of the images' file, little endian; the labels' file follows that file.
#include "worker/data/idx.h"

#include <algorithm>

#include "tests/fuzz/input_file.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

constexpr std::size_t kLabelsHeader = 8;

void CheckImages(const train::FeatureTable<std::uint8_t>& table, std::string_view images, std::string_view labels) {
  const std::size_t rows = table.labels.size();
  Require(rows > 0 && table.inputs.size() == rows * table.features, "each label has an image");
  Require(images.ends_with(std::string_view(reinterpret_cast<const char*>(table.inputs.data()), table.inputs.size())),
          "pixels are the file's last bytes");
  Require(labels.size() == kLabelsHeader + rows, "labels fill their file");
  std::int32_t largest = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    Require(table.labels[row] == static_cast<unsigned char>(labels[kLabelsHeader + row]),
            "labels are the file's bytes");
    largest = std::max(largest, table.labels[row]);
  }
  Require(table.classes == static_cast<std::uint32_t>(largest) + 1, "classes end at the largest label");
  const train::ImageShape& image = table.image;
  Require(image == train::ImageShape{} || std::uint64_t{image.height} * image.width * image.channels == table.features,
          "an image has as many values as its shape says");
}

void RunIdx(std::string_view bytes) {
  if (bytes.size() < 2) return;
  const std::size_t low = static_cast<unsigned char>(bytes[0]), high = static_cast<unsigned char>(bytes[1]);
  const std::size_t size = low | high << 8;
  bytes.remove_prefix(2);
  const std::string_view images = bytes.substr(0, size), labels = bytes.substr(images.size());
  const InputFile images_file(images), labels_file(labels);
  const auto table = train::ReadIdx(images_file.path(), labels_file.path());
  if (!table.ok()) return RequireReason(table.status(), "/proc/self/fd/");
  const bool is_packed = images.starts_with("\x1f\x8b") || labels.starts_with("\x1f\x8b");
  if (!is_packed) CheckImages(*table, images, labels);
}

const Registered idx_target({"idx", RunIdx});

}  // namespace
}  // namespace capstan::fuzz
