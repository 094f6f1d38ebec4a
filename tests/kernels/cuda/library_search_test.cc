// Where a CUDA library is searched, in which order, and the error message if it is not found.
#include "kernels/cuda/library_search.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/catch.h"

namespace capstan::kernels {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "libcapstan_sought.so.13";

struct Folder {
  Folder() : path(fs::temp_directory_path() / ("library_search." + std::to_string(getpid()))) {
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  // Makes a library named `name` in `folder`: a link to libm, which every machine has. Returns the folder's path.
  std::string With(const std::string& folder, const std::string& name = kName) const {
    fs::create_directories(path / folder);
    fs::path real;
    for (const char* place : {"/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/lib/aarch64-linux-gnu"}) {
      if (real.empty() && fs::exists(fs::path(place) / "libm.so.6")) real = fs::path(place) / "libm.so.6";
    }
    REQUIRE_FALSE(real.empty());
    fs::create_symlink(real, path / folder / name);
    return (path / folder).string();
  }
  const fs::path path;
};

TEST_CASE("a library is looked for in what is given, by the loader, in the toolkit, beside each folder of PATH",
          "[library]") {
  const Folder folder;
  fs::create_directories(folder.path / "venv/bin");
  std::ofstream(folder.path / "venv/bin/python3") << "";
  fs::create_directories(folder.path / "local/bin");  // has no python3
  const std::string packages = (folder.path / "venv/lib/python3.11/site-packages/nvidia").string();
  fs::create_directories(packages + "/cublas/lib");
  fs::create_directories(packages + "/cudnn/lib");
  fs::create_directories(packages + "/cu13/lib");
  fs::create_directories(packages + "/nccl/lib");
  const std::string local = (folder.path / "local/lib/python3.11/dist-packages/nvidia/cu13/lib/").string();
  fs::create_directories(local);
  const std::string root = folder.path.string();
  const LibrarySearch search{.folders = {"/given"},
                             .toolkit = "/opt/toolkit",
                             .path = "relative:" + root + "/local/bin:" + root + "/venv/bin"};
  CHECK(LibraryPlaces(search) == std::vector<std::string>{"/given/", "", "/opt/toolkit/lib64/",
                                                          "/usr/local/cuda/lib64/", local, packages + "/cu13/lib/",
                                                          packages + "/cublas/lib/", packages + "/cudnn/lib/",
                                                          packages + "/nccl/lib/"});
}

TEST_CASE("CUDA_HOME comes before CUDA_PATH, and what the environment lacks is not looked for", "[library]") {
  std::map<std::string, const char*> environment;
  const auto variable = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second;
  };
  CHECK(SearchOf(variable).toolkit + SearchOf(variable).path == "");
  environment = {{"CUDA_PATH", "/path"}, {"PATH", "/bin"}};
  CHECK(SearchOf(variable).toolkit + SearchOf(variable).path == "/path/bin");
  environment["CUDA_HOME"] = "/home";
  CHECK(SearchOf(variable).toolkit == "/home");
}

TEST_CASE("the first place that has a library wins, and a broken one is passed over", "[library]") {
  const Folder folder;
  const std::string toolkit = (folder.path / "toolkit").string();
  const std::string second = folder.With("second"), third = folder.With("toolkit/lib64");
  fs::create_directories(folder.path / "broken");
  std::ofstream(folder.path / "broken" / kName) << "no library";
  CHECK(OpenLibrary({.folders = {(folder.path / "broken").string(), second}}, {kName}).ok());
  CHECK(OpenLibrary({.toolkit = toolkit}, {kName}).ok());
  CHECK(OpenLibrary({.toolkit = toolkit}, {"libcapstan_sought.so.14", kName}).ok());
  CHECK_FALSE(OpenLibrary({}, {kName}).ok());
}

TEST_CASE("a library that was found stays, for what it has begun", "[library]") {
  const char* const unused = "libBrokenLocale.so.1";  // this program does not use the library
  REQUIRE(dlopen(unused, RTLD_NOW | RTLD_NOLOAD) == nullptr);
  REQUIRE(OpenLibrary({}, {unused}).ok());
  CHECK(dlopen(unused, RTLD_NOW | RTLD_NOLOAD) != nullptr);
}

TEST_CASE("a library that is nowhere is said to be, with every place, and why one did not open", "[library]") {
  const Folder folder;
  fs::create_directories(folder.path / "broken");
  const std::string broken = (folder.path / "broken").string();
  std::ofstream(broken + "/" + kName) << "no library";
  const Status status = OpenLibrary({.folders = {broken}, .toolkit = "/opt/toolkit"}, {kName}).status();
  CHECK(status.code() == Code::kUnsupported);
  for (const std::string& part : {std::string(kName), broken + "/", std::string("the system's folders"),
                                  std::string("/opt/toolkit/lib64/"), std::string("/usr/local/cuda/lib64/")}) {
    CHECK_THAT(status.message(), Catch::Contains(part));
  }
  CHECK_THAT(status.message(), Catch::Contains("too short") || Catch::Contains("invalid ELF"));
}

}  // namespace
}  // namespace capstan::kernels
