// TempFolder: an empty folder for one test or benchmark, removed afterwards, with functions to put files there.
//
// Kind:   owned by its maker.
// Fails:  CHECKs that there is a place for temporary files, because without one there is nothing to test.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace capstan::testing {

class TempFolder {
 public:
  enum class Where { kMemory, kDisk };

  // Makes the folder: in memory if `where` says so and /dev/shm exists, otherwise on disk.
  explicit TempFolder(Where where = Where::kMemory) {
    const bool memory = where == Where::kMemory && std::filesystem::is_directory("/dev/shm");
    const std::filesystem::path parent = memory ? "/dev/shm" : std::filesystem::temp_directory_path();
    path_ = parent / "capstan-test-XXXXXX";
    CAPSTAN_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  // Returns the path of a file or folder in this folder, existing or not.
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file, and creates the folders above it; returns its path.
  std::string Write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path file = path(name);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    CAPSTAN_CHECK(out.good());
    return file;
  }

 private:
  std::string path_;
};

}  // namespace capstan::testing
