// TokenDataset: files of token ids from any tokenizer, concatenated in the order of their names.
//
// Kind:   immutable; shared by threads.
// Types:  ids are uint16 or uint32, little endian, without a header.
// Limits: the files stay open. Each is read once when it is opened, so that unknown ids are found before training.
// Fails:  kInvalid: missing, too little or unreadable data; an id not below the vocabulary, with file, position and
//         value. kCorrupt: a size that is not a whole number of tokens; in Fill, a modified file.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/config/job/data_section.h"
#include "worker/data/data_file.h"
#include "worker/data/window_dataset.h"

namespace capstan::train {

class TokenDataset : public WindowDataset {
 public:
  static Result<std::unique_ptr<Dataset>> Open(const std::filesystem::path& path, const DataSection& options,
                                               std::uint32_t context);

 private:
  // A file, and the range of its tokens in the concatenation.
  struct Part {
    DataFile file;
    std::uint64_t begin = 0, end = 0;
  };
  class Opener;

  TokenDataset(std::vector<Part> parts, SplitTable split, const DataSection& options, std::uint32_t context,
               std::uint64_t fingerprint);
  Status Copy(std::uint64_t begin, std::size_t count, std::int32_t* out) const override;
  // Copies from one file; `begin` counts in the concatenation.
  template <class Token>
  Status CopyFrom(const Part& part, std::uint64_t begin, std::size_t count, std::int32_t* out) const;

  const std::vector<Part> parts_;  // without empty files
  const TokenType type_;
};

}  // namespace capstan::train
