#include "common/base/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace capstan {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Says what keeps the file from being a secret; empty: nothing.
std::string WhyNoSecret(const std::string& path, const struct stat& file) {
  if (!S_ISREG(file.st_mode)) return path + " is not a file";
  if ((file.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return path + " can be used by others than its owner; run: chmod 600 " + path;
  if (file.st_uid != geteuid() && file.st_uid != 0) {
    return path + " belongs to user " + std::to_string(file.st_uid) + ", and this process runs as user " +
           std::to_string(geteuid()) + "; make a copy of its own";
  }
  if (file.st_size == 0) return path + " is empty";
  if (static_cast<std::size_t>(file.st_size) > kSecretBytesMax)
    return path + " has more than " + std::to_string(kSecretBytesMax) + " bytes";
  return "";
}

}  // namespace

Result<std::string> ReadSecretFile(const std::string& path) {
  const auto failed = [&](int error) {
    const bool no_room = error == EMFILE || error == ENFILE;
    return Status(no_room ? Code::kBusy : Code::kInvalid, "cannot read " + path + ": " + std::strerror(error));
  };
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe must not make this wait
  struct stat facts {};
  if (file.fd() < 0 || fstat(file.fd(), &facts) != 0) return failed(errno);
  if (const std::string why = WhyNoSecret(path, facts); !why.empty()) return Invalid(why);
  std::string bytes(kSecretBytesMax + 1, '\0');
  std::size_t size = 0;
  for (ssize_t got = 1; got != 0 && size < bytes.size(); size += static_cast<std::size_t>(got)) {
    got = read(file.fd(), bytes.data() + size, bytes.size() - size);
    if (got < 0) return failed(errno);
  }
  if (size == 0 || size > kSecretBytesMax) return Invalid(path + " changes while it is read; write it at once");
  bytes.resize(size);
  return bytes;
}

}  // namespace capstan
