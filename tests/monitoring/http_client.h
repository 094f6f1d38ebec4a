// HttpClient: one connection to an exporter, which a test can leave silent, or cut off, at any byte.
//
// Kind:   owned by its maker.
// Limits: each wait for a part of an answer ends after 10 s, times the run's patience.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "tests/patience.h"

namespace capstan::monitoring {

class HttpClient {
 public:
  HttpClient() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval timeout{10 * testing::Patience(), 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  }
  explicit HttpClient(const std::string& address) : HttpClient() { Connect(address); }
  // `from`: a loopback address of its own.
  HttpClient(const std::string& address, const std::string& from) : HttpClient() {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    inet_pton(AF_INET, from.c_str(), &own.sin_addr);
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0) Connect(address);
  }
  ~HttpClient() { close(fd_); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void Connect(const std::string& address) {
    const auto colon = address.rfind(':');
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
    inet_pton(AF_INET, address.substr(0, colon).c_str(), &where.sin_addr);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0;
  }
  bool connected() const { return connected_; }

  // Returns false if the connection is known to be broken.
  bool Send(const std::string& bytes) const {
    return connected_ && send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  void EndRequests() const { shutdown(fd_, SHUT_WR); }
  // Returns what the other side sends until it closes.
  std::string Rest() const {
    std::string all;
    char buffer[4096];
    for (ssize_t n; (n = recv(fd_, buffer, sizeof buffer, 0)) > 0;) all.append(buffer, static_cast<std::size_t>(n));
    return all;
  }
  std::string Ask(const std::string& request) const { return Send(request) ? Rest() : ""; }
  // Whether the other side still holds the connection, and has sent nothing.
  bool is_silent() const {
    char byte = 0;
    return recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }

 private:
  const int fd_;
  bool connected_ = false;
};

inline std::string Send(const std::string& address, const std::string& request) {
  return HttpClient(address).Ask(request);
}

// Returns the answer, with its head. `fields`: further ones of the request, each with its line's end.
inline std::string Get(const std::string& address, const std::string& path, const std::string& fields = "") {
  return Send(address, "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\n" + fields + "\r\n");
}

inline bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace capstan::monitoring
