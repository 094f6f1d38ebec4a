#include "cli/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <utility>

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kSameSecondMax = 1000;

std::string DefaultPath(const std::string& job_name) {
  const std::time_t now = std::time(nullptr);
  tm day{};
  localtime_r(&now, &day);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &day);
  return "runs/" + job_name + "-" + text.data();
}

Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return Unreachable("cannot make the folder " + path + ": " + error.message());
  return {};
}

// A folder that nobody else has: jobs may start within one second.
Result<std::string> MakeDefaultFolder(const std::string& job_name) {
  const std::string first = DefaultPath(job_name);
  CAPSTAN_RETURN_IF_ERROR(MakeFolder("runs"));
  std::error_code error;
  for (int number = 1; number <= kSameSecondMax; ++number) {
    std::string path = number == 1 ? first : first + "-" + std::to_string(number);
    if (fs::create_directory(path, error)) return path;
    if (error) break;
  }
  return Unreachable("cannot make the folder " + first + ": " +
                     (error ? error.message() : "there are too many of this name") + "; give another --run-dir");
}

// Whether a step was ever committed into it: a start that failed leaves none.
bool HoldsRun(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path + "/metrics.jsonl", error);
  return !error && size > 0;
}

std::string Holder(int fd) {
  std::array<char, 32> pid{};
  const ssize_t size = pread(fd, pid.data(), pid.size() - 1, 0);
  return size > 0 ? " (process " + std::string(pid.data(), static_cast<std::size_t>(size)) + ")" : "";
}

}  // namespace

Result<RunDirectory> RunDirectory::Create(std::string path, const std::string& job_name) {
  if (path.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(path, MakeDefaultFolder(job_name));
  } else {
    CAPSTAN_RETURN_IF_ERROR(MakeFolder(path));
  }
  const std::string lock = path + "/lock";
  const int fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Unreachable("cannot write into the run directory " + path + ": " + std::strerror(errno));
  RunDirectory directory(path, fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    directory.lock_fd_ = -1;
    const std::string holder = Holder(fd);
    close(fd);
    return Invalid("the run directory " + path + " is in use by another job" + holder + "; give another --run-dir");
  }
  if (HoldsRun(path)) {
    return Invalid("the run directory " + path + " holds a run already; give another --run-dir or remove it");
  }
  const std::string pid = std::to_string(getpid());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    return Unreachable("cannot write " + lock + ": " + std::strerror(errno));
  }
  CAPSTAN_RETURN_IF_ERROR(MakeFolder(path + "/logs"));
  CAPSTAN_RETURN_IF_ERROR(MakeFolder(path + "/pids"));
  return directory;
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::move(other.path_)), lock_fd_(std::exchange(other.lock_fd_, -1)) {}

RunDirectory::~RunDirectory() {
  if (lock_fd_ >= 0) close(lock_fd_);
}

Status WriteFile(const std::string& path, const std::string& text) {
  const std::string partial = path + ".partial";
  {
    std::ofstream out(partial, std::ios::binary | std::ios::trunc);
    out << text;
    out.flush();
    if (!out) return Unreachable("cannot write " + partial + ": " + std::strerror(errno));
  }
  if (std::rename(partial.c_str(), path.c_str()) != 0)
    return Unreachable("cannot write " + path + ": " + std::strerror(errno));
  return {};
}

Status WritePid(const std::string& run_dir, const std::string& process, int pid) {
  CAPSTAN_RETURN_IF_ERROR(MakeFolder(run_dir + "/pids"));
  return WriteFile(run_dir + "/pids/" + process, std::to_string(pid) + "\n");
}

Status WriteEndpoints(const std::string& run_dir, const Endpoints& endpoints) {
  const nlohmann::ordered_json object = {
      {"coordinator", endpoints.coordinator}, {"shards", endpoints.shards}, {"metrics", endpoints.metrics}};
  return WriteFile(run_dir + "/endpoints.json", object.dump(2) + "\n");
}

}  // namespace capstan::cli
