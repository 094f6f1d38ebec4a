// ReadCsv: a table of numbers separated by commas, one column of it the class; plain or gzip.
//
// Kind:   a pure function over the file system.
// Limits: kCsvColumnsMax columns, kCsvClassesMax classes.
// Fails:  kInvalid that names the line: rows of different length, a value that is not a number, NaN or infinity, a
//         label that is not a class. Also as ReadUnpacked.
// Why:    a NaN that is accepted here would show up hours later in the loss.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/base/status.h"
#include "worker/data/feature_dataset.h"

namespace capstan::train {

inline constexpr std::uint32_t kCsvColumnsMax = 1 << 20;
inline constexpr std::uint32_t kCsvClassesMax = 1 << 20;

struct CsvOptions {
  std::int64_t label_column = -1;  // counted from 0; negative: from the end
  std::uint32_t header_lines = 0;
  float scale = 1.0F;  // values must be finite when divided by it
};

Result<FeatureTable<float>> ReadCsv(const std::filesystem::path& path, const CsvOptions& options);

}  // namespace capstan::train
