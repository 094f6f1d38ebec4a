// TokenDataset: files of token ids, made by somebody's tokenizer, one behind the other in the order of their names.
//
// Kind:   immutable; shared by threads.
// Types:  ids are uint16 or uint32, little endian, without a header.
// Limits: the files are mapped, and read whole once: ids that the model does not know are found before training.
// Fails:  kInvalid: nothing there, too little of it, not readable, an id that is not below the vocabulary: file,
//         position, value. kCorrupt: a size that is no whole number of tokens.
//
// Sample i is tokens [i * context, (i + 1) * context], so that an epoch predicts every token once.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "common/status.h"
#include "worker/train/data/dataset.h"
#include "worker/train/data/mapped_file.h"
#include "worker/train/data/split_table.h"

namespace capstan::train {

class TokenDataset : public Dataset {
 public:
  static Result<std::unique_ptr<Dataset>> Open(const std::filesystem::path& path, const DataSection& options,
                                               std::uint32_t context);

  const SampleSpec& spec() const override { return spec_; }
  std::uint64_t count(Split split) const override { return split_.count(split); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  void Fill(std::span<const std::uint64_t> samples, Split split, const DrawKey& key, BatchBuffer* batch) const override;

 private:
  // A file's tokens within the stream of all.
  struct Part {
    MappedFile file;
    std::uint64_t begin = 0, end = 0;
  };
  class Opener;

  TokenDataset(std::vector<Part> parts, SplitTable split, const DataSection& options, std::uint32_t context,
               std::uint64_t fingerprint);
  // Tokens [begin, begin + count) of the stream.
  void Copy(std::uint64_t begin, std::size_t count, std::int32_t* out) const;

  const std::vector<Part> parts_;  // none of them empty
  const SplitTable split_;
  const TokenType type_;
  const std::uint64_t fingerprint_;
  SampleSpec spec_;
};

}  // namespace capstan::train
