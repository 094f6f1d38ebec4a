#include "cli/run/http_get.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>

#include "cli/run/address.h"
#include "common/base/host_port.h"
#include "common/base/utf8.h"
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

// A connection to a process, encrypted after Encrypt. Its waits end at one deadline, or where the caller gives up.
class Line {
 public:
  Line(int family, const std::function<bool()>& goes_on)
      : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), goes_on_(goes_on) {}
  ~Line() {
    session_.reset();
    if (fd_ >= 0) close(fd_);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  Status Connect(const addrinfo& to) {
    if (connect(fd_, to.ai_addr, to.ai_addrlen) == 0) return {};
    if (errno != EINPROGRESS) return Failed();
    CAPSTAN_RETURN_IF_ERROR(Await(POLLOUT));
    socklen_t size = sizeof errno;
    if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &errno, &size) == 0 && errno == 0) return {};
    return Failed();
  }

  // Begins TLS, and checks that the other side has the certificate in the file.
  Status Encrypt(const std::string& certificate_file) {
    const File file(BIO_new_file(certificate_file.c_str(), "r"));
    const Certificate wanted(file ? PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr) : nullptr);
    if (!wanted) return Invalid("metrics.certificate: cannot read a certificate in PEM from " + certificate_file);
    ERR_clear_error();  // an error of an earlier connection would be taken for one of this
    const Context context(SSL_CTX_new(TLS_client_method()));
    session_.reset(context ? SSL_new(context.get()) : nullptr);
    const Status no_tls = Unreachable("it does not speak TLS, or not in time");
    if (!session_ || SSL_set_fd(session_.get(), fd_) != 1) return no_tls;
    for (int done = 0; (done = SSL_connect(session_.get())) != 1;) {
      if (!AwaitSession(done).ok()) return no_tls;
    }
    const Certificate shown(SSL_get1_peer_certificate(session_.get()));
    if (shown && X509_cmp(shown.get(), wanted.get()) == 0) return {};
    return Unreachable("its certificate is not the one in " + certificate_file);
  }

  Status Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = session_ ? SSL_write(session_.get(), text.data(), static_cast<int>(text.size()))
                                    : send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        text.remove_prefix(static_cast<std::size_t>(sent));
      } else {
        CAPSTAN_RETURN_IF_ERROR(AwaitMore(sent, POLLOUT));
      }
    }
    return {};
  }

  // Reads until the other side closes, or until there are about kHttpBytesMax.
  Result<std::string> Receive() {
    std::string answer;
    std::array<char, 16384> bytes{};
    while (answer.size() < kHttpBytesMax) {
      const ssize_t size = session_ ? SSL_read(session_.get(), bytes.data(), static_cast<int>(bytes.size()))
                                    : recv(fd_, bytes.data(), bytes.size(), 0);
      if (size > 0) {
        answer.append(bytes.data(), static_cast<std::size_t>(size));
      } else if (size == 0) {
        break;
      } else if (Status more = AwaitMore(size, POLLIN); !more.ok()) {
        if (answer.empty() || more.code() == Code::kTimeout) return Unreachable(more.message());
        break;
      }
    }
    return answer;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kSliceMs = 100;

  static Status Failed() { return Unreachable(errno != 0 ? std::strerror(errno) : "the connection broke"); }

  Status Await(short events) {
    while (Clock::now() < deadline_ && goes_on_()) {
      pollfd socket{fd_, events, 0};
      if (poll(&socket, 1, kSliceMs) > 0) return {};
    }
    return {Code::kTimeout, "no answer within " + std::to_string(kHttpSeconds) + " s"};
  }

  // Waits until a call that returned `result` can go on; fails if it failed for another reason.
  Status AwaitMore(ssize_t result, short events) {
    if (session_) return AwaitSession(static_cast<int>(result));
    return errno == EAGAIN || errno == EINTR ? Await(events) : Failed();
  }

  Status AwaitSession(int result) {
    const int error = SSL_get_error(session_.get(), result);
    if (error == SSL_ERROR_WANT_READ) return Await(POLLIN);
    if (error == SSL_ERROR_WANT_WRITE) return Await(POLLOUT);
    return Failed();
  }

  const int fd_;
  const std::function<bool()>& goes_on_;
  const Clock::time_point deadline_ = Clock::now() + std::chrono::seconds(kHttpSeconds);
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

Result<std::string> Exchange(const addrinfo& to, const std::string& request, const MetricsSection& section,
                             const std::function<bool()>& goes_on) {
  Line line(to.ai_family, goes_on);
  CAPSTAN_RETURN_IF_ERROR(line.Connect(to));
  if (!section.certificate.empty()) CAPSTAN_RETURN_IF_ERROR(line.Encrypt(section.certificate));
  CAPSTAN_RETURN_IF_ERROR(line.Send(request));
  return line.Receive();
}

using AddressInfo = std::unique_ptr<addrinfo, Freed<freeaddrinfo>>;

// Returns the socket address of HOST:PORT with a host in numbers, IPv4 or IPv6 in brackets; else null.
AddressInfo SocketAddressOf(const std::string& address) {
  std::string host = HostOf(address);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(PortOf(address));
  return AddressInfo(getaddrinfo(host.c_str(), port.c_str(), &hints, &found) == 0 ? found : nullptr);
}

}  // namespace

Result<std::string> HttpGet(const std::string& address, const std::string& path, const MetricsSection& section,
                            const std::function<bool()>& goes_on) {
  const std::string where = (section.certificate.empty() ? "http://" : "https://") + address + path;
  const AddressInfo to = SocketAddressOf(address);
  if (!to) return Unreachable(where + ": not an address in numbers");
  CAPSTAN_ASSIGN_OR_RETURN(const std::string request, RequestFor(address, path, section));
  const Result<std::string> answer = Exchange(*to, request, section, goes_on);
  if (!answer.ok()) return Status(answer.status().code(), where + ": " + answer.status().message());
  const std::size_t body = answer->find("\r\n\r\n");
  const std::string first = answer->substr(0, answer->find('\r'));
  if (body != answer->npos && first.find(" 200 ") != first.npos) return answer->substr(body + 4);
  const std::string said = where + " answers \"" + Excerpt(first) + "\"";
  if (first.find(" 404 ") != first.npos) return Status(Code::kUnsupported, said);
  return Unreachable(said +
                     (first.find(" 401 ") != first.npos
                          ? "; give the file with its token: --metrics-token-file, or metrics.token_file of the job"
                          : ""));
}

}  // namespace capstan::cli
