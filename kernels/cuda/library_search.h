// LibrarySearch: the places of a CUDA library that is not shipped but installed by something else.
//
// Fails:  kUnsupported, naming every place searched.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan::kernels {

struct LibrarySearch {
  std::vector<std::string> folders = {};  // searched first
  std::string toolkit = {};               // value of CUDA_HOME or CUDA_PATH
  std::string path = {};                  // value of PATH: PyTorch's libraries lie next to its folders
};

// Makes the search from a program's environment: variable("PATH") and the like return null or the value.
template <class Variable>
LibrarySearch SearchOf(const Variable& variable) {
  LibrarySearch search;
  for (const char* const name : {"CUDA_PATH", "CUDA_HOME"}) {
    if (const char* const folder = variable(name)) search.toolkit = folder;
  }
  if (const char* const path = variable("PATH")) search.path = path;
  return search;
}

// Returns the places in search order, each with a "/" at the end; "" stands for the system loader's own search.
std::vector<std::string> LibraryPlaces(const LibrarySearch& search);

// Opens the library, which stays loaded until the process ends. The first place that has one of `names` (file names)
// wins; within a place, the first name.
Result<std::shared_ptr<void>> OpenLibrary(const LibrarySearch& search, const std::vector<std::string>& names);

}  // namespace capstan::kernels
