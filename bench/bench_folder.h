// BenchFolder: an empty folder for one benchmark, removed afterwards.
//
// Kind:   owned by the benchmark's thread.
// Fails:  CHECKs that there is a folder for temporary files, because without one there is nothing to measure.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "common/base/status.h"

namespace capstan::bench {

class BenchFolder {
 public:
  BenchFolder() : path_(std::filesystem::temp_directory_path() / "capstan-bench-XXXXXX") {
    CAPSTAN_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  ~BenchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }  // path of a file that need not exist

 private:
  std::string path_;
};

}  // namespace capstan::bench
