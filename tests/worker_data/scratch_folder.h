// ScratchFolder: an empty folder for one test, removed after it, and the files it writes there.
//
// Kind: owned by a test.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace capstan::train {

class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Writes a file, and the folders above it.
  std::filesystem::path Write(const std::string& name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

// `bytes` in gzip format.
std::string Gzip(std::string_view bytes);

}  // namespace capstan::train
