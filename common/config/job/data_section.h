// DataSection: section [data] of the job file.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace capstan {

enum class DataKind : std::uint8_t { kText, kTokens, kIdx, kCsv, kCifar10, kSynthetic };
// The type of a token in a file, little endian.
enum class TokenType : std::uint8_t { kUint16, kUint32 };

struct DataSection {
  DataKind kind = DataKind::kSynthetic;  // required
  std::string path;         // text, tokens: a file or a folder; idx: the images; csv: the table; cifar10: the folder
  double validation = 0.1;  // fraction of the samples that is held out; cifar10 has its own validation set
  // text, tokens
  std::vector<std::string> include;  // shell patterns for files of a folder; empty: all files
  std::uint64_t max_bytes = 0;       // reads at most this many bytes; 0: no limit
  // tokens
  TokenType type = TokenType::kUint16;
  // idx
  std::string labels;
  // csv
  std::int64_t label_column = -1;  // from 0; negative: from the end
  std::uint32_t header_lines = 0;  // lines to skip at the top
  // idx, csv
  double scale = 1.0;  // divisor of the inputs; default 255 for idx, 1 for csv
  // cifar10: random changes of training images
  bool crop = true;
  bool flip = true;
  // csv, synthetic
  std::vector<std::uint32_t> image;  // [height, width, channels] if rows are images; else empty
  // synthetic
  std::uint64_t samples = 4096;
  std::uint32_t features = 32;  // numbers in a row that is not an image
  std::uint32_t classes = 10;   // classes of rows
  // synthetic (gpt), tokens
  std::uint32_t vocabulary = 64;  // token ids are below it; default: the preset's; tokens without a preset need it
  bool operator==(const DataSection&) const = default;

  // How many numbers a row of synthetic data has.
  std::uint32_t row_features() const { return image.empty() ? features : image[0] * image[1] * image[2]; }
};

}  // namespace capstan
