#include "common/base/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace capstan {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOthers = S_IRWXG | S_IRWXO, kOthersMayChange = S_IWGRP | S_IWOTH;

std::string ModeText(mode_t mode) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%04o", mode & 07777);
  return text.data();
}

Status CannotLook(const std::string& folder, int error) {
  const std::string what = "cannot use the folder " + folder + ": " + std::strerror(error);
  return Invalid(error == ENOENT ? what + "; make it by: mkdir -m 700 " + folder : what);
}

// Checks that only this user and the owner of the root folder, who owns the system, can replace what lies in `folder`.
// (That owner is asked for and not taken to be 0, because a container may show the superuser under another number.)
Status CheckAbove(const fs::path& folder) {
  struct stat root {
  }, above{};
  if (stat("/", &root) != 0) return CannotLook("/", errno);
  if (stat(folder.c_str(), &above) != 0) return CannotLook(folder, errno);
  if (above.st_uid != geteuid() && above.st_uid != root.st_uid) {
    return Invalid("the folder " + folder.string() + " is another user's (uid " + std::to_string(above.st_uid) +
                   "), who could replace what lies in it");
  }
  if ((above.st_mode & kOthersMayChange) != 0 && (above.st_mode & S_ISVTX) == 0) {
    return Invalid("other users can replace what lies in the folder " + folder.string() + " (mode " +
                   ModeText(above.st_mode) + ")");
  }
  return {};
}

Status CheckOwn(const std::string& folder) {
  struct stat own {};
  if (lstat(folder.c_str(), &own) != 0) return CannotLook(folder, errno);
  if (!S_ISDIR(own.st_mode)) return Invalid(folder + " is no folder");
  if (own.st_uid != geteuid()) {
    return Invalid("the folder " + folder + " is another user's (uid " + std::to_string(own.st_uid) +
                   ", and this process has uid " + std::to_string(geteuid()) +
                   "); all processes of a job that uses sockets in a folder are one user's");
  }
  if ((own.st_mode & kOthers) == 0) return {};
  return Invalid("other users can enter the folder " + folder + " (mode " + ModeText(own.st_mode) +
                 "), so a file in it is not this user's alone; close it by: chmod 700 " + folder);
}

}  // namespace

Result<std::string> FindPrivateFolder(const std::string& folder) {
  std::error_code error;
  const fs::path whole = fs::canonical(folder, error);
  if (error) return CannotLook(folder, error.value());
  CAPSTAN_RETURN_IF_ERROR(CheckOwn(whole));
  for (fs::path above = whole; above.has_relative_path();) {
    above = above.parent_path();
    CAPSTAN_RETURN_IF_ERROR(CheckAbove(above));
  }
  return whole.string();
}

Result<std::string> MakePrivateFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return Unreachable("cannot make the folder " + folder + ": " + std::strerror(errno));
  }
  struct stat made {};
  if (lstat(folder.c_str(), &made) == 0 && S_ISLNK(made.st_mode)) return Invalid(folder + " is a link, and no folder");
  return FindPrivateFolder(folder);
}

}  // namespace capstan
