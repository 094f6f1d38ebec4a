#include "kernels/cuda/library_search.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace capstan::kernels {
namespace {

namespace fs = std::filesystem;

// Returns the entries of `folder` that begin with `prefix`, sorted by name.
std::vector<fs::path> In(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with(prefix)) found.push_back(at->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Adds the folders of NVIDIA's Python packages next to `bin`: PREFIX/lib/python3.X/site-packages/nvidia/... A python3
// in `bin` is not required: Debian's pip, run from /usr/bin, installs below /usr/local and ~/.local.
void AddPackages(const fs::path& bin, std::vector<std::string>* places) {
  std::error_code error;
  for (const fs::path& python : In(bin.parent_path() / "lib", "python3")) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      for (const char* package : {"nvidia/cu13/lib", "nvidia/cublas/lib", "nvidia/cudnn/lib", "nvidia/nccl/lib"}) {
        const fs::path folder = python / packages / package;
        if (fs::is_directory(folder, error)) places->push_back(folder.string() + "/");
      }
    }
  }
}

}  // namespace

std::vector<std::string> LibraryPlaces(const LibrarySearch& search) {
  std::vector<std::string> places;
  for (const std::string& folder : search.folders) places.push_back(folder + "/");
  places.emplace_back();
  if (!search.toolkit.empty()) places.push_back(search.toolkit + "/lib64/");
  places.emplace_back("/usr/local/cuda/lib64/");
  std::istringstream path(search.path);
  for (std::string folder; std::getline(path, folder, ':');) {
    if (folder.starts_with('/')) AddPackages(folder, &places);
  }
  return places;
}

Result<std::shared_ptr<void>> OpenLibrary(const LibrarySearch& search, const std::vector<std::string>& names) {
  std::string looked;
  for (const std::string& place : LibraryPlaces(search)) {
    for (const std::string& name : names) {
      // The library is never unloaded: it may have threads and device code whose end it does not report.
      void* const library = dlopen((place + name).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
      if (library != nullptr) return std::shared_ptr<void>(library, [](void* open) { (void)dlclose(open); });
      // If the library exists but cannot be opened, the message gives dlopen's reason.
      const char* const reason = dlerror();
      std::error_code error;
      const bool there = !place.empty() && std::filesystem::exists(place + name, error);
      if (there && reason != nullptr) looked += (looked.empty() ? "" : ", ") + std::string(reason);
    }
    looked += (looked.empty() ? "" : ", ") + (place.empty() ? std::string("the system's folders") : place);
  }
  return Unsupported(names.front() + " was not found; it was looked for in " + looked);
}

}  // namespace capstan::kernels
