#include "cli/run/http_get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "cli/run/address.h"

namespace capstan::cli {
namespace {

class Socket {
 public:
  Socket() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{kHttpSeconds, 0};
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) setsockopt(fd_, SOL_SOCKET, option, &patience, sizeof patience);
  }
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

Status Exchange(const Socket& socket, const sockaddr_in& to, const std::string& request, std::string* answer) {
  const auto failed = [] { return Unreachable(std::strerror(errno)); };
  if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return failed();
  if (send(socket.fd(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
    return failed();
  }
  std::array<char, 4096> bytes{};
  ssize_t size = 0;
  while (answer->size() < kHttpBytesMax && (size = recv(socket.fd(), bytes.data(), bytes.size(), 0)) > 0) {
    answer->append(bytes.data(), static_cast<std::size_t>(size));
  }
  return size < 0 ? failed() : Status();
}

}  // namespace

Result<std::string> HttpGet(const std::string& address, const std::string& path) {
  const std::string where = "http://" + address + path;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(PortOf(address));
  if (inet_pton(AF_INET, address.substr(0, address.rfind(':')).c_str(), &to.sin_addr) != 1) {
    return Unreachable(where + ": not an address in numbers");
  }
  const Socket socket;
  std::string answer;
  const std::string request = "GET " + path + " HTTP/1.0\r\nHost: " + address + "\r\n\r\n";
  if (Status status = Exchange(socket, to, request, &answer); !status.ok()) {
    return Unreachable(where + ": " + status.message());
  }
  const std::size_t body = answer.find("\r\n\r\n");
  const std::string first = answer.substr(0, answer.find('\r'));
  if (body == answer.npos || first.find(" 200 ") == first.npos)
    return Unreachable(where + " answers \"" + first + "\"");
  return answer.substr(body + 4);
}

}  // namespace capstan::cli
