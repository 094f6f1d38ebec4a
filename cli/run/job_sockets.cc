#include "cli/run/job_sockets.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "common/base/hash.h"
#include "common/base/private_folder.h"
#include "common/base/process_address.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kCoordinator[] = "coordinator", kShard[] = "shard-", kScripts[] = "scripts", kProbe[] = "probe";
constexpr std::size_t kNameBytesMax = sizeof "shard-16777215.m" - 1;  // of the last shard that a job file can have

// Whether the folder's disk has sockets: makes one and removes it.
Status CheckHasSockets(const std::string& folder) {
  const std::string path = folder + "/" + kProbe;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  unlink(path.c_str());
  const bool bound = bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int error = errno;
  close(probe);
  unlink(path.c_str());
  return bound ? Status() : Invalid("no socket can be made in " + folder + ": " + std::strerror(error));
}

Result<std::string> MakeFolder(const std::string& path) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string folder, MakePrivateFolder(path));
  if (folder.size() + 1 + kNameBytesMax > kSocketPathBytesMax) {
    rmdir(folder.c_str());
    return Invalid("the path " + folder + " is too long for sockets, which have at most " +
                   std::to_string(kSocketPathBytesMax) + " bytes with their names");
  }
  CAPSTAN_RETURN_IF_ERROR(CheckHasSockets(folder));
  return folder;
}

// Makes the folder in the temporary folder. The folder around it is kept after the job: no other user can make one of
// its name as long as it is there, so a process that waits at the path finds this user's processes only.
Result<std::string> MakeTemporaryFolder(const std::string& run_dir) {
  std::error_code error;
  const fs::path run = fs::canonical(run_dir, error), temporary = fs::temp_directory_path(error);
  if (error) return Unreachable("there is no folder for temporary files: " + error.message());
  CAPSTAN_ASSIGN_OR_RETURN(const std::string own,
                           MakePrivateFolder(temporary / ("capstan-" + std::to_string(geteuid()))));
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "run-%016llx",
                static_cast<unsigned long long>(Hash64(std::as_bytes(std::span(run.native())))));
  return MakeFolder(own + "/" + name.data());
}

}  // namespace

Result<JobSockets> JobSockets::Make(const std::string& run_dir) {
  const Result<std::string> in_run = MakeFolder(run_dir + "/sockets");
  if (in_run.ok()) return JobSockets(*in_run);
  const Result<std::string> temporary = MakeTemporaryFolder(run_dir);
  if (temporary.ok()) return JobSockets(*temporary);
  return Invalid("there is no folder for the job's sockets. In the run directory: " + in_run.status().message() +
                 ". In the temporary folder: " + temporary.status().message() +
                 ". Give a --run-dir of yours with a short path, or set TMPDIR to a folder of yours");
}

JobSockets JobSockets::Of(const std::string& coordinator) {
  const std::string path = SocketPathOf(coordinator);
  return JobSockets(path.substr(0, path.rfind('/')));
}

std::string JobSockets::coordinator() const { return LocalAddress(folder_, kCoordinator); }

std::string JobSockets::shard(ShardIndex shard) const { return LocalAddress(folder_, kShard + std::to_string(shard)); }

std::string JobSockets::scripts() const { return LocalAddress(folder_, kScripts); }

void JobSockets::Remove() const {
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    std::error_code ignored;
    const bool ours = name == kCoordinator || name == kScripts || name.starts_with(kShard);
    if (ours && fs::is_socket(entry->symlink_status(ignored))) fs::remove(entry->path(), ignored);
  }
  rmdir(folder_.c_str());
}

}  // namespace capstan::cli
