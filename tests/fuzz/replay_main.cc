// Runs each target of this program on every file of CORPUS/NAME, where NAME is the target's. So the corpus is a test,
// with any compiler.
//
//   fuzz_core_test CORPUS
//   fuzz_files_test CORPUS
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/target.h"

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> FilesOf(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string BytesOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

int main(int argc, char** argv) {
  bool is_complete = argc == 2 && !capstan::fuzz::Targets().empty();
  for (const capstan::fuzz::Target& target : capstan::fuzz::Targets()) {
    const std::vector<fs::path> files = FilesOf(fs::path(argc == 2 ? argv[1] : "") / target.name);
    for (const fs::path& file : files) {
      std::printf("%s\n", file.c_str());
      std::fflush(stdout);  // the last printed name is that of the failing input
      target.run(BytesOf(file));
    }
    std::printf("%s: %zu inputs\n", std::string(target.name).c_str(), files.size());
    is_complete = is_complete && !files.empty();
  }
  return is_complete ? 0 : 1;
}
