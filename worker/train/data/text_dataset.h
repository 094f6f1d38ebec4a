// TextDataset: the bytes of one file, or of many in the order of their names, as tokens.
//
// Kind:   immutable; shared by threads.
// Limits: vocabulary 256; kTextBytesMax bytes in memory.
// Fails:  kInvalid: nothing there, too little of it, not readable.
// Why:    bytes need no tokenizer and no vocabulary file, and every language has them.
//
// Sample i is bytes [i * context, (i + 1) * context], so that an epoch predicts every byte once.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "common/status.h"
#include "worker/train/data/dataset.h"
#include "worker/train/data/split_table.h"

namespace capstan::train {

inline constexpr std::uint64_t kTextBytesMax = std::uint64_t{1} << 36;

class TextDataset : public Dataset {
 public:
  static Result<std::unique_ptr<Dataset>> Open(const std::filesystem::path& path, const DataSection& options,
                                               std::uint32_t context);

  const SampleSpec& spec() const override { return spec_; }
  std::uint64_t count(Split split) const override { return split_.count(split); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  void Fill(std::span<const std::uint64_t> samples, Split split, const DrawKey& key, BatchBuffer* batch) const override;

 private:
  TextDataset(std::string bytes, SplitTable split, std::uint32_t context, std::uint64_t fingerprint);

  const std::string bytes_;
  const SplitTable split_;
  const std::uint64_t fingerprint_;
  SampleSpec spec_;
};

}  // namespace capstan::train
