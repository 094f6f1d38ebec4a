#include "worker/data/token_dataset.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "common/base/hash.h"
#include "common/config/job/data_section.h"
#include "worker/data/list_files.h"

namespace capstan::train {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTokensAtOnce = 2048;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // a piece is hashed and checked while it is in the cache

std::size_t SizeOf(TokenType type) {
  return type == TokenType::kUint16 ? sizeof(std::uint16_t) : sizeof(std::uint32_t);
}

std::string_view NameOf(TokenType type) { return type == TokenType::kUint16 ? "uint16" : "uint32"; }

template <class Token>
std::span<const Token> TokensIn(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const Token*>(bytes.data()), bytes.size() / sizeof(Token)};
}

// Returns the index of the first token that is not below the vocabulary; tokens.size() if there is none.
template <class Token>
std::size_t FindUnknown(std::span<const Token> tokens, std::uint32_t vocabulary) {
  if (vocabulary > std::numeric_limits<Token>::max()) return tokens.size();
  Token largest = 0;  // no early exit, so that the loop vectorizes
  for (const Token token : tokens) largest = std::max(largest, token);
  if (largest < vocabulary) return tokens.size();
  const auto unknown = std::find_if(tokens.begin(), tokens.end(), [&](Token token) { return token >= vocabulary; });
  return static_cast<std::size_t>(unknown - tokens.begin());
}

Status UnknownToken(const fs::path& path, std::uint64_t position, std::uint32_t token, std::uint32_t vocabulary) {
  return Invalid(path.string() + ": token " + std::to_string(position) + " is " + std::to_string(token) +
                 ", and [data] vocabulary = " + std::to_string(vocabulary) +
                 "; give the vocabulary of the tokenizer that wrote it, and its [data] type");
}

template <class Token>
Status CheckTokens(std::span<const Token> tokens, std::uint32_t vocabulary, const fs::path& path, std::uint64_t first) {
  const std::size_t unknown = FindUnknown(tokens, vocabulary);
  if (unknown == tokens.size()) return {};
  return UnknownToken(path, first + unknown, tokens[unknown], vocabulary);
}

}  // namespace

// Opens the files in order, and checks and hashes their tokens.
class TokenDataset::Opener {
 public:
  explicit Opener(const DataSection& options) : options_(options), token_bytes_(SizeOf(options.type)) {
    if (options.max_bytes != 0) tokens_max_ = options.max_bytes / token_bytes_;
  }

  Status AddFolder(const fs::path& folder) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> files, ListFiles(folder, options_.include));
    for (const std::string& file : files) {
      if (tokens_ >= tokens_max_) break;
      CAPSTAN_RETURN_IF_ERROR(AddFile(folder / file, file));
    }
    return {};
  }

  Status AddFile(const fs::path& path, const std::string& name) {
    CAPSTAN_ASSIGN_OR_RETURN(DataFile file, DataFile::Open(path));
    const std::uint64_t size = file.size();
    if (size % token_bytes_ != 0) {
      return Corrupt(path.string() + ": " + std::to_string(size) + " bytes, no whole number of " +
                     std::string(NameOf(options_.type)) + " tokens; copy it again, or correct [data] type");
    }
    const std::uint64_t count = std::min(size / token_bytes_, tokens_max_ - tokens_);
    hasher_.Add(std::uint64_t{name.size()});
    hasher_.Add(name);
    hasher_.Add(count * token_bytes_);
    CAPSTAN_RETURN_IF_ERROR(Read(file, count * token_bytes_));
    if (count > 0) parts_.push_back({std::move(file), tokens_, tokens_ + count});
    tokens_ += count;
    return {};
  }

  std::uint64_t tokens() const { return tokens_; }
  std::uint64_t Digest() const { return hasher_.Digest(); }
  std::vector<Part> TakeParts() { return std::move(parts_); }

 private:
  Status Read(const DataFile& file, std::uint64_t bytes) {
    std::vector<std::byte> buffer(std::min<std::uint64_t>(kPieceBytes, bytes));
    for (std::uint64_t at = 0; at < bytes; at += kPieceBytes) {
      const std::span<std::byte> piece(buffer.data(), std::min<std::uint64_t>(kPieceBytes, bytes - at));
      CAPSTAN_RETURN_IF_ERROR(file.Read(at, piece));
      hasher_.Add(piece);
      const std::uint64_t first = at / token_bytes_;
      const std::uint32_t vocabulary = options_.vocabulary;
      CAPSTAN_RETURN_IF_ERROR(options_.type == TokenType::kUint16
                                  ? CheckTokens(TokensIn<std::uint16_t>(piece), vocabulary, file.path(), first)
                                  : CheckTokens(TokensIn<std::uint32_t>(piece), vocabulary, file.path(), first));
    }
    return {};
  }

  const DataSection& options_;
  const std::size_t token_bytes_;
  std::uint64_t tokens_max_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t tokens_ = 0;
  std::vector<Part> parts_;
  Hasher hasher_;  // hash of names, sizes and contents
};

Result<std::unique_ptr<Dataset>> TokenDataset::Open(const fs::path& path, const DataSection& options,
                                                    std::uint32_t context) {
  Opener opener(options);
  std::error_code error;
  CAPSTAN_RETURN_IF_ERROR(fs::is_directory(path, error) ? opener.AddFolder(path) : opener.AddFile(path, ""));
  if (opener.tokens() <= context) {
    return Invalid(path.string() + ": " + std::to_string(opener.tokens()) + " tokens, and one sample takes " +
                   std::to_string(context + 1) + " ([model] context + 1); give more of them or a smaller context");
  }
  const std::uint64_t samples = (opener.tokens() - 1) / context;
  CAPSTAN_ASSIGN_OR_RETURN(SplitTable split, SplitTable::Create(samples, options.validation, path.string()));
  return std::unique_ptr<Dataset>(
      new TokenDataset(opener.TakeParts(), std::move(split), options, context, opener.Digest()));
}

TokenDataset::TokenDataset(std::vector<Part> parts, SplitTable split, const DataSection& options, std::uint32_t context,
                           std::uint64_t fingerprint)
    : WindowDataset(std::move(split), options.vocabulary, context, fingerprint),
      parts_(std::move(parts)),
      type_(options.type) {}

Status TokenDataset::Copy(std::uint64_t begin, std::size_t count, std::int32_t* out) const {
  auto part = std::upper_bound(parts_.begin(), parts_.end(), begin,
                               [](std::uint64_t token, const Part& p) { return token < p.end; });
  for (; count > 0; ++part) {
    const std::size_t here = std::min<std::uint64_t>(count, part->end - begin);
    CAPSTAN_RETURN_IF_ERROR(part->file.CheckUnchanged());
    const Status copied = type_ == TokenType::kUint16 ? CopyFrom<std::uint16_t>(*part, begin, here, out)
                                                      : CopyFrom<std::uint32_t>(*part, begin, here, out);
    // Checked before `copied`: if a file was modified, unknown tokens in it are only a consequence.
    CAPSTAN_RETURN_IF_ERROR(part->file.CheckUnchanged());
    CAPSTAN_RETURN_IF_ERROR(copied);
    begin += here;
    out += here;
    count -= here;
  }
  return {};
}

template <class Token>
Status TokenDataset::CopyFrom(const Part& part, std::uint64_t begin, std::size_t count, std::int32_t* out) const {
  const std::uint64_t first = begin - part.begin;
  std::array<Token, kTokensAtOnce> tokens;
  std::uint32_t largest = 0;
  for (std::size_t done = 0; done < count;) {
    const std::span<Token> piece = std::span(tokens).first(std::min(kTokensAtOnce, count - done));
    CAPSTAN_RETURN_IF_ERROR(part.file.Read((first + done) * sizeof(Token), std::as_writable_bytes(piece)));
    for (const std::uint32_t token : piece) {
      out[done++] = static_cast<std::int32_t>(token);
      largest = std::max(largest, token);
    }
  }
  if (largest < spec().vocabulary) return {};
  const auto* unknown = std::find_if(
      out, out + count, [&](std::int32_t t) { return static_cast<std::uint32_t>(t) >= spec().vocabulary; });
  return UnknownToken(part.file.path(), first + static_cast<std::uint64_t>(unknown - out),
                      static_cast<std::uint32_t>(*unknown), spec().vocabulary);
}

}  // namespace capstan::train
