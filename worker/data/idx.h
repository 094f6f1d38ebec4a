// ReadIdx: images and labels in the format of MNIST, plain or gzip.
//
// Kind:   a pure function over the file system.
// Shapes: [images, rows, columns] is an image of one channel, [images, rows, columns, channels] one of several; other
//         dimensions are rows of numbers.
// Limits: unsigned bytes only; kIdxDimensionsMax dimensions.
// Fails:  kInvalid, kCorrupt: the message names the file and the fault.
#pragma once

#include <filesystem>

#include "common/base/status.h"
#include "worker/data/feature_dataset.h"

namespace capstan::train {

inline constexpr unsigned kIdxDimensionsMax = 8;

Result<FeatureTable<std::uint8_t>> ReadIdx(const std::filesystem::path& images, const std::filesystem::path& labels);

}  // namespace capstan::train
