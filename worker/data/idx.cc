#include "worker/data/idx.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "common/base/hash.h"
#include "worker/data/file_bytes.h"

namespace capstan::train {

namespace {

constexpr unsigned char kUnsignedByte = 0x08;
constexpr std::uint64_t kFeaturesMax = 1 << 20;

struct IdxArray {
  std::vector<std::uint64_t> extents;
  std::string_view values;
};

// Parses an idx file: a magic number (two zero bytes, the type, the number of dimensions), then each extent in 32 bits,
// big-endian, then the values.
Result<IdxArray> ParseIdx(std::string_view bytes, const std::string& name) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if (bytes.size() < 4) return Corrupt(name + ": " + std::to_string(bytes.size()) + " bytes; an idx file has more");
  if (byte(0) != 0 || byte(1) != 0 || byte(2) != kUnsignedByte || byte(3) < 1 || byte(3) > kIdxDimensionsMax) {
    std::array<char, 16> magic;
    std::snprintf(magic.data(), magic.size(), "%02x%02x%02x%02x", byte(0), byte(1), byte(2), byte(3));
    return Corrupt(name + ": not an idx file of unsigned bytes: it starts with " + magic.data() +
                   ", images start with 00000803 and labels with 00000801");
  }
  IdxArray array;
  const std::size_t header = 4 + std::size_t{4} * byte(3);
  if (bytes.size() < header) return Corrupt(name + ": truncated within its header; copy or download it again");
  std::uint64_t wanted = 1;
  for (std::size_t at = 4; at < header; at += 4) {
    const std::uint64_t extent = std::uint64_t{byte(at)} << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
    array.extents.push_back(extent);
    wanted = extent == 0 || wanted <= kFileBytesMax / extent ? wanted * extent : kFileBytesMax + 1;
  }
  array.values = bytes.substr(header);
  if (array.values.size() != wanted) {
    return Corrupt(name + ": its header announces " + std::to_string(wanted) + " values and " +
                   std::to_string(array.values.size()) + " follow; copy or download it again");
  }
  return array;
}

}  // namespace

Result<FeatureTable<std::uint8_t>> ReadIdx(const std::filesystem::path& images, const std::filesystem::path& labels) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string image_bytes, ReadUnpacked(images));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string label_bytes, ReadUnpacked(labels));
  CAPSTAN_ASSIGN_OR_RETURN(const IdxArray pixels, ParseIdx(image_bytes, images.string()));
  CAPSTAN_ASSIGN_OR_RETURN(const IdxArray classes, ParseIdx(label_bytes, labels.string()));
  if (pixels.extents.size() < 2) {
    return Invalid(images.string() + ": one dimension; images have two or more. Are path and labels swapped?");
  }
  if (classes.extents.size() != 1) {
    return Invalid(labels.string() + ": " + std::to_string(classes.extents.size()) +
                   " dimensions; labels have one. Are path and labels swapped?");
  }
  const std::uint64_t rows = pixels.extents[0];
  if (rows == 0 || pixels.values.empty()) return Invalid(images.string() + ": no images in it");
  if (rows != classes.extents[0]) {
    return Invalid(images.string() + " has " + std::to_string(rows) + " images, " + labels.string() + " has " +
                   std::to_string(classes.extents[0]) + " labels; they must belong together");
  }
  if (pixels.values.size() / rows > kFeaturesMax) {
    return Invalid(images.string() + ": more than " + std::to_string(kFeaturesMax) + " values in an image");
  }
  FeatureTable<std::uint8_t> table;
  table.features = static_cast<std::uint32_t>(pixels.values.size() / rows);
  if (pixels.extents.size() == 3 || pixels.extents.size() == 4) {
    const auto extent = [&](std::size_t i) { return static_cast<std::uint32_t>(pixels.extents[i]); };
    table.image = {extent(1), extent(2), pixels.extents.size() == 4 ? extent(3) : 1};
  }
  table.inputs.assign(pixels.values.begin(), pixels.values.end());
  for (char label : classes.values) table.labels.push_back(static_cast<unsigned char>(label));
  table.classes = static_cast<std::uint32_t>(*std::max_element(table.labels.begin(), table.labels.end())) + 1;
  Hasher hasher;
  hasher.Add(std::uint64_t{image_bytes.size()});
  hasher.Add(image_bytes);
  hasher.Add(label_bytes);
  table.fingerprint = hasher.Digest();
  return table;
}

}  // namespace capstan::train
