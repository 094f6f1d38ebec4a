#include "common/wire/local_endpoint.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "common/base/private_folder.h"
#include "common/base/process_address.h"

namespace capstan {

Result<std::string> CheckLocalEndpoint(const std::string& endpoint) {
  CAPSTAN_RETURN_IF_ERROR(ReadProcessAddress("the address of a socket", endpoint).status());
  const std::string path = SocketPathOf(endpoint);
  const std::size_t slash = path.rfind('/');
  const Result<std::string> folder = FindPrivateFolder(slash == 0 ? "/" : path.substr(0, slash));
  if (!folder.ok()) return Status(folder.status().code(), endpoint + ": " + folder.status().message());
  return ReadProcessAddress("the address of a socket", LocalAddress(*folder, path.substr(slash + 1)));
}

bool IsServed(const std::string& endpoint) {
  const std::string path = SocketPathOf(endpoint);
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const bool served =
      connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN;
  close(probe);
  return served;
}

}  // namespace capstan
