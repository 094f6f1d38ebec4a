// TextDataset: the bytes of one file, or of several in the order of their names, as tokens.
//
// Kind:   immutable; shared by threads.
// Limits: vocabulary 256; kTextBytesMax bytes in memory.
// Fails:  kInvalid: missing, too little or unreadable data.
// Why:    bytes need no tokenizer and no vocabulary file, and work for every language.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/config/job/forward.h"
#include "worker/data/window_dataset.h"

namespace capstan::train {

inline constexpr std::uint64_t kTextBytesMax = std::uint64_t{1} << 36;

class TextDataset : public WindowDataset {
 public:
  static Result<std::unique_ptr<Dataset>> Open(const std::filesystem::path& path, const DataSection& options,
                                               std::uint32_t context);

 private:
  TextDataset(std::string bytes, SplitTable split, std::uint32_t context, std::uint64_t fingerprint);
  Status Copy(std::uint64_t begin, std::size_t count, std::int32_t* out) const override;

  const std::string bytes_;
};

}  // namespace capstan::train
