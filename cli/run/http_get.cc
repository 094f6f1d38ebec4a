#include "cli/run/http_get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "cli/run/address.h"
#include "monitoring/token_file.h"

namespace capstan::cli {
namespace {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Freed<SSL_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using File = std::unique_ptr<BIO, Freed<BIO_free>>;

// A connection to a process, encrypted after Encrypt.
class Line {
 public:
  Line() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{kHttpSeconds, 0};
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) setsockopt(fd_, SOL_SOCKET, option, &patience, sizeof patience);
  }
  ~Line() {
    session_.reset();
    close(fd_);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  Status Connect(const sockaddr_in& to) {
    return connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ? Status() : Failed();
  }

  // Begins TLS, and checks that the other side has the certificate in the file.
  Status Encrypt(const std::string& certificate_file) {
    const File file(BIO_new_file(certificate_file.c_str(), "r"));
    const Certificate wanted(file ? PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr) : nullptr);
    if (!wanted) return Invalid("metrics.certificate: cannot read a certificate in PEM from " + certificate_file);
    const Context context(SSL_CTX_new(TLS_client_method()));
    session_.reset(context ? SSL_new(context.get()) : nullptr);
    if (!session_ || SSL_set_fd(session_.get(), fd_) != 1 || SSL_connect(session_.get()) != 1)
      return Unreachable("it does not speak TLS, or not in time");
    const Certificate shown(SSL_get1_peer_certificate(session_.get()));
    if (shown && X509_cmp(shown.get(), wanted.get()) == 0) return {};
    return Unreachable("its certificate is not the one in " + certificate_file);
  }

  Status Send(const std::string& text) {
    const auto size = static_cast<int>(text.size());
    const ssize_t sent =
        session_ ? SSL_write(session_.get(), text.data(), size) : send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    return sent == size ? Status() : Failed();
  }

  // Reads until the other side closes, or until there are about kHttpBytesMax.
  Result<std::string> Receive() {
    std::string answer;
    std::array<char, 4096> bytes{};
    ssize_t size = 0;
    while (answer.size() < kHttpBytesMax && (size = Read(bytes.data(), bytes.size())) > 0) {
      answer.append(bytes.data(), static_cast<std::size_t>(size));
    }
    if (size < 0 && answer.empty()) return Failed();
    return answer;
  }

 private:
  static Status Failed() { return Unreachable(errno != 0 ? std::strerror(errno) : "the connection broke"); }
  ssize_t Read(char* to, std::size_t size) {
    return session_ ? SSL_read(session_.get(), to, static_cast<int>(size)) : recv(fd_, to, size, 0);
  }

  const int fd_;
  Session session_;  // null: not encrypted
};

Result<std::string> RequestFor(const std::string& address, const std::string& path, const MetricsSection& section) {
  std::string request = "GET " + path + " HTTP/1.0\r\nHost: " + address + "\r\n";
  if (!section.token_file.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string token, monitoring::ReadToken(section.token_file));
    request += "Authorization: Bearer " + token + "\r\n";
  }
  return request + "\r\n";
}

Result<std::string> Exchange(const sockaddr_in& to, const std::string& request, const MetricsSection& section) {
  Line line;
  CAPSTAN_RETURN_IF_ERROR(line.Connect(to));
  if (!section.certificate.empty()) CAPSTAN_RETURN_IF_ERROR(line.Encrypt(section.certificate));
  CAPSTAN_RETURN_IF_ERROR(line.Send(request));
  return line.Receive();
}

}  // namespace

Result<std::string> HttpGet(const std::string& address, const std::string& path, const MetricsSection& section) {
  const std::string where = (section.certificate.empty() ? "http://" : "https://") + address + path;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(PortOf(address));
  if (inet_pton(AF_INET, address.substr(0, address.rfind(':')).c_str(), &to.sin_addr) != 1) {
    return Unreachable(where + ": not an address in numbers");
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::string request, RequestFor(address, path, section));
  const Result<std::string> answer = Exchange(to, request, section);
  if (!answer.ok()) return Status(answer.status().code(), where + ": " + answer.status().message());
  const std::size_t body = answer->find("\r\n\r\n");
  const std::string first = answer->substr(0, answer->find('\r'));
  if (body == answer->npos || first.find(" 200 ") == first.npos)
    return Unreachable(where + " answers \"" + first + "\"");
  return answer->substr(body + 4);
}

}  // namespace capstan::cli
