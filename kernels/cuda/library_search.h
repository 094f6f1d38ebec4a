// LibrarySearch: where to look for a CUDA library. capstan does not ship such libraries; a toolkit or PyTorch installs
// them.
//
// Fails:  kUnsupported; the message names every place searched.
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

// Makes the search from a program's environment. variable(name), such as std::getenv, returns the value or null.
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

// Opens the library, which stays loaded until the process ends. Tries each of `names` (file names) in the first place,
// then in the next, and takes the first that can be opened.
Result<std::shared_ptr<void>> OpenLibrary(const LibrarySearch& search, const std::vector<std::string>& names);

}  // namespace capstan::kernels
