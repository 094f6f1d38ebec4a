// TokenDataset: files of token ids, made by somebody's tokenizer, one behind the other in the order of their names.
//
// Kind:   immutable; shared by threads.
// Types:  ids are uint16 or uint32, little endian, without a header.
// Limits: the files are mapped, and read whole once: ids that the model does not know are found before training.
// Fails:  kInvalid: nothing there, too little of it, not readable, an id that is not below the vocabulary: file,
//         position, value. kCorrupt: a size that is no whole number of tokens; in Fill, a file that was written to.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/config/job/data_section.h"
#include "worker/data/mapped_file.h"
#include "worker/data/window_dataset.h"

namespace capstan::train {

class TokenDataset : public WindowDataset {
 public:
  static Result<std::unique_ptr<Dataset>> Open(const std::filesystem::path& path, const DataSection& options,
                                               std::uint32_t context);

 private:
  // A file's tokens within the row of all.
  struct Part {
    MappedFile file;
    std::uint64_t begin = 0, end = 0;
  };
  class Opener;

  TokenDataset(std::vector<Part> parts, SplitTable split, const DataSection& options, std::uint32_t context,
               std::uint64_t fingerprint);
  Status Copy(std::uint64_t begin, std::size_t count, std::int32_t* out) const override;
  // Of one file; `begin` within the row of all.
  template <class Token>
  Status CopyFrom(const Part& part, std::uint64_t begin, std::size_t count, std::int32_t* out) const;

  const std::vector<Part> parts_;  // none of them empty
  const TokenType type_;
};

}  // namespace capstan::train
