// LibrarySearch: where a library of CUDA may be that stays where something else has put it.
//
// Fails:  kUnsupported, with every place that was looked in.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan::kernels {

struct LibrarySearch {
  std::vector<std::string> folders = {};  // looked in first
  std::string toolkit = {};               // what CUDA_HOME or CUDA_PATH says
  std::string path = {};                  // what PATH says: PyTorch has libraries beside its folders
};

// As a program's environment has it: variable("PATH") and so on are null or their value.
template <class Variable>
LibrarySearch SearchOf(const Variable& variable) {
  LibrarySearch search;
  for (const char* const name : {"CUDA_PATH", "CUDA_HOME"}) {
    if (const char* const folder = variable(name)) search.toolkit = folder;
  }
  if (const char* const path = variable("PATH")) search.path = path;
  return search;
}

// In the order in which they are looked in, with a "/" at the end; "" is where the system's loader looks.
std::vector<std::string> LibraryPlaces(const LibrarySearch& search);

// Stays until the process ends. The first place with one of `names` (file names) wins, and in it the first name.
Result<std::shared_ptr<void>> OpenLibrary(const LibrarySearch& search, const std::vector<std::string>& names);

}  // namespace capstan::kernels
