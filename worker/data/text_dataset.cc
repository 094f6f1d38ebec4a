#include "worker/data/text_dataset.h"

#include <algorithm>

#include "common/base/hash.h"
#include "common/config/job/data_section.h"
#include "worker/data/file_bytes.h"
#include "worker/data/list_files.h"

namespace capstan::train {

namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kByteValues = 256;

struct Text {
  std::string bytes;
  Hasher hasher;  // hash of names, sizes and contents
};

Status AddFile(const fs::path& path, const std::string& name, std::uint64_t bytes_max, Text* text) {
  const std::size_t before = text->bytes.size();
  CAPSTAN_RETURN_IF_ERROR(AppendFile(path, bytes_max - before, &text->bytes));
  const std::string_view added = std::string_view(text->bytes).substr(before);
  text->hasher.Add(std::uint64_t{name.size()});
  text->hasher.Add(name);
  text->hasher.Add(std::uint64_t{added.size()});
  text->hasher.Add(added);
  return {};
}

Status ReadFolder(const fs::path& folder, const DataSection& options, std::uint64_t bytes_max, Text* text) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> files, ListFiles(folder, options.include));
  for (const std::string& file : files) {
    if (text->bytes.size() >= bytes_max) break;
    CAPSTAN_RETURN_IF_ERROR(AddFile(folder / file, file, bytes_max, text));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Dataset>> TextDataset::Open(const fs::path& path, const DataSection& options,
                                                   std::uint32_t context) {
  const std::uint64_t bytes_max = options.max_bytes == 0 ? kTextBytesMax : std::min(options.max_bytes, kTextBytesMax);
  std::error_code error;
  Text text;
  if (fs::is_directory(path, error)) {
    CAPSTAN_RETURN_IF_ERROR(ReadFolder(path, options, bytes_max, &text));
  } else {
    CAPSTAN_RETURN_IF_ERROR(AddFile(path, "", bytes_max, &text));
  }
  if (text.bytes.size() <= context) {
    return Invalid(path.string() + ": " + std::to_string(text.bytes.size()) + " bytes of text, and one sample takes " +
                   std::to_string(context + 1) + " ([model] context + 1); give more text or a smaller context");
  }
  const std::uint64_t samples = (text.bytes.size() - 1) / context;
  CAPSTAN_ASSIGN_OR_RETURN(SplitTable split, SplitTable::Create(samples, options.validation, path.string()));
  const std::uint64_t fingerprint = text.hasher.Digest();
  return std::unique_ptr<Dataset>(new TextDataset(std::move(text.bytes), std::move(split), context, fingerprint));
}

TextDataset::TextDataset(std::string bytes, SplitTable split, std::uint32_t context, std::uint64_t fingerprint)
    : WindowDataset(std::move(split), kByteValues, context, fingerprint), bytes_(std::move(bytes)) {}

Status TextDataset::Copy(std::uint64_t begin, std::size_t count, std::int32_t* out) const {
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<unsigned char>(bytes_[begin + i]);
  return {};
}

}  // namespace capstan::train
