#include "cli/snapshot/gpt2_layout.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "common/base/glob.h"

namespace capstan::cli {

namespace {

constexpr std::string_view kPrefix = "transformer.";
constexpr std::string_view kTokens = "wte.weight", kPositions = "wpe.weight", kHead = "lm_head.weight";
constexpr std::array<const char*, 4> kTransposed = {"h.*.attn.c_attn.weight", "h.*.attn.c_proj.weight",
                                                    "h.*.mlp.c_fc.weight", "h.*.mlp.c_proj.weight"};
// Names of attention masks, which hold no weights.
constexpr std::array<const char*, 2> kMasks = {"h.*.attn.bias", "h.*.attn.masked_bias"};
constexpr std::size_t kTile = 32;

template <std::size_t kCount>
bool MatchesOne(const std::array<const char*, kCount>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&, text = std::string(name)](const char* pattern) { return GlobMatches(pattern, text); });
}

std::string_view WithoutPrefix(std::string_view name) {
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

template <class Tensors>
auto Find(Tensors& tensors, std::string_view name) {
  return std::find_if(tensors.begin(), tensors.end(),
                      [&](const SafetensorsEntry& tensor) { return WithoutPrefix(tensor.name) == name; });
}

std::span<std::byte> BytesOf(SafetensorsFile* file, const SafetensorsEntry& entry) {
  return std::span(file->data).subspan(entry.begin, entry.end - entry.begin);
}

// Replaces a matrix by its transpose. Works tile by tile, because walking down a column misses the cache.
void Transpose(std::size_t rows, std::size_t columns, std::span<std::byte> bytes) {
  if (bytes.empty()) return;  // a file may claim any number of rows without data
  std::vector<float> from(rows * columns), to(rows * columns);
  std::memcpy(from.data(), bytes.data(), bytes.size());
  for (std::size_t top = 0; top < rows; top += kTile) {
    for (std::size_t left = 0; left < columns; left += kTile) {
      for (std::size_t r = top; r < std::min(top + kTile, rows); ++r) {
        for (std::size_t c = left; c < std::min(left + kTile, columns); ++c) to[c * rows + r] = from[r * columns + c];
      }
    }
  }
  std::memcpy(bytes.data(), to.data(), bytes.size());
}

// Removes the output head, which in capstan's gpt is the token embedding: a file may hold that tensor twice. Fails if
// the two differ.
Status DropHead(const std::string& path, SafetensorsFile* file) {
  const auto head = Find(file->tensors, kHead), tokens = Find(file->tensors, kTokens);
  if (head == file->tensors.end() || tokens == file->tensors.end()) return {};
  if (!std::ranges::equal(BytesOf(file, *head), BytesOf(file, *tokens))) {
    return Invalid(path + ": \"" + head->name + "\" and \"" + tokens->name +
                   "\" differ, and in a gpt of this program they are one tensor; only models with a tied head fit");
  }
  file->tensors.erase(head);
  return {};
}

void CutPositions(const Catalog& catalog, SafetensorsFile* file) {
  const auto positions = Find(file->tensors, kPositions);
  if (positions == file->tensors.end() || positions->shape.size() != 2 || positions->shape[0] == 0) return;
  for (const TensorSpec& wanted : catalog.tensors()) {
    if (wanted.name != kPositions) continue;
    const auto context = static_cast<std::uint64_t>(wanted.shape[0]);
    if (context >= positions->shape[0]) continue;
    positions->end = positions->begin + (positions->end - positions->begin) / positions->shape[0] * context;
    positions->shape[0] = context;
  }
}

}  // namespace

bool IsGpt2Layout(const SafetensorsFile& file) {
  const auto found = Find(file.tensors, "h.0.attn.c_attn.weight");
  return found != file.tensors.end() && found->shape.size() == 2 && found->shape[1] == 3 * found->shape[0];
}

Status AdoptGpt2(const Catalog& catalog, const std::string& path, SafetensorsFile* file) {
  CAPSTAN_RETURN_IF_ERROR(DropHead(path, file));
  std::erase_if(file->tensors,
                [](const SafetensorsEntry& tensor) { return MatchesOne(kMasks, WithoutPrefix(tensor.name)); });
  CutPositions(catalog, file);
  for (SafetensorsEntry& tensor : file->tensors) {
    tensor.name = std::string(WithoutPrefix(tensor.name));
    if (tensor.shape.size() != 2 || !MatchesOne(kTransposed, tensor.name)) continue;
    if (tensor.dtype == "F32") Transpose(tensor.shape[0], tensor.shape[1], BytesOf(file, tensor));
    std::swap(tensor.shape[0], tensor.shape[1]);
  }
  return {};
}

}  // namespace capstan::cli
