#include "common/base/rotated_file.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <utility>

#include "common/base/durable_file.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

using Piece = std::pair<std::uint64_t, std::string>;  // number and path

std::string NameOf(const fs::path& path, std::uint64_t number) {
  return path.stem().string() + "." + std::to_string(number) + path.extension().string();
}

// Returns the number in the name of an older piece of the file at `path`; 0 if `name` is not such a piece.
std::uint64_t NumberOf(const fs::path& path, const std::string& name) {
  const std::string stem = path.stem().string() + ".";
  std::uint64_t number = 0;
  if (!name.starts_with(stem)) return 0;
  (void)std::from_chars(name.data() + stem.size(), name.data() + name.size(), number);
  return NameOf(path, number) == name ? number : 0;
}

std::vector<Piece> Pieces(const std::string& path) {
  std::vector<Piece> pieces;
  std::error_code error;
  for (fs::directory_iterator entry(FolderOf(path), error), end; !error && entry != end; entry.increment(error)) {
    const std::uint64_t number = NumberOf(path, entry->path().filename());
    if (number > 0) pieces.emplace_back(number, entry->path());
  }
  std::sort(pieces.begin(), pieces.end());
  return pieces;
}

}  // namespace

std::vector<std::string> FormerFiles(const std::string& path) {
  std::vector<std::string> files;
  for (Piece& piece : Pieces(path)) files.push_back(std::move(piece.second));
  return files;
}

Status RotateFile(const std::string& path, std::size_t most) {
  const std::vector<Piece> pieces = Pieces(path);
  const std::uint64_t number = pieces.empty() ? 1 : pieces.back().first + 1;
  CAPSTAN_RETURN_IF_ERROR(RenameDurably(path, fs::path(path).replace_filename(NameOf(path, number))));
  for (std::size_t i = 0; i + most < pieces.size() + 1; ++i) unlink(pieces[i].second.c_str());
  return {};
}

}  // namespace capstan
