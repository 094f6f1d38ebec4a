#include "server/storage/sync_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace capstan::server {

Status SyncFolder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && fsync(descriptor) == 0;
  const Status status = synced ? Status() : Unreachable(folder + ": fsync failed: " + std::strerror(errno));
  if (descriptor >= 0) close(descriptor);
  return status;
}

}  // namespace capstan::server
