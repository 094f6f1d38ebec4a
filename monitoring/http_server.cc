#include "monitoring/http_server.h"

#include <fcntl.h>
#include <pthread.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mailbox.h"
#include "monitoring/descriptor_reserve.h"
#include "monitoring/http_connection.h"
#include "monitoring/tls_files.h"

namespace capstan::monitoring {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLookEvery{5};           // at the certificate's files
constexpr std::chrono::milliseconds kAcceptPause{100};  // after a failure that the server cannot mend

// Asio lets programs that this process starts inherit its sockets.
void CloseInOtherPrograms(int descriptor) { fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

Status CannotListen(const error_code& error) {
  if (error == asio::error::address_in_use) return Invalid("the address is in use by another process; stop that");
  if (error == boost::system::errc::address_not_available)
    return Invalid("this machine has no such address; take one of its own");
  if (error == asio::error::access_denied) return Invalid("only root may take a port that low; take a higher one");
  return Invalid(error.message() + "; mend that");
}

// Returns what connections of one client have in common: its IPv4 address, or the first 64 bits of its IPv6 address,
// the rest of which a machine chooses by itself.
std::string NetworkOf(const asio::ip::address& address) {
  if (address.is_v4()) return address.to_string();
  const asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, v6).to_string();
  const auto bytes = v6.to_bytes();
  return {bytes.begin(), bytes.begin() + bytes.size() / 2};
}

}  // namespace

class HttpServer::Impl final : HttpConnection::Owner {
 public:
  explicit Impl(HttpServerOptions options)
      : options_(std::move(options)), tls_files_(options_.certificate, options_.key) {}

  ~Impl() {
    pages_.Close();
    if (pages_thread_.joinable()) pages_thread_.join();
    io_.stop();
    if (loop_.joinable()) loop_.join();
  }

  Status Start() {
    if (!options_.certificate.empty()) {
      CAPSTAN_ASSIGN_OR_RETURN(tls_, tls_files_.ReadIfChanged());
    }
    CAPSTAN_RETURN_IF_ERROR(Listen());
    Accept();
    loop_ = std::thread([this] { RunLoop(); });
    pages_thread_ = std::thread([this] { RunPages(); });
    return {};
  }

  std::uint16_t port() const { return port_; }

 private:
  struct Open {
    std::shared_ptr<HttpConnection> connection;
    std::string from;  // NetworkOf its client
  };
  // A request that waits for "http-pages". If its connection is closed before, nobody waits for the answer.
  struct Page {
    std::weak_ptr<HttpConnection> from;
    HttpRequest request;
  };

  Status Listen() {
    error_code error;
    const asio::ip::address host = asio::ip::make_address(options_.host, error);
    if (error) return Invalid("the host is not a numeric address; mend that");
    const tcp::endpoint where(host, options_.port);
    acceptor_.open(where.protocol(), error);
    if (!error) CloseInOtherPrograms(acceptor_.native_handle());
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(where, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    return error ? CannotListen(error) : Status();
  }

  // ---- on "http"

  void RunLoop() {
    pthread_setname_np(pthread_self(), "http");
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception&) {  // such as no memory: it ends the operation, and perhaps its connection
      }
    }
  }

  void Accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      const bool has_room = error != asio::error::no_descriptors || reserve_.Release() || CloseOldest();
      if (!has_room || (error && error != asio::error::no_descriptors)) return AcceptLater();
      Accept();
      if (!error) Admit(std::move(socket));
    });
  }

  void AcceptLater() {
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](const error_code&) { Accept(); });
  }

  void Admit(tcp::socket socket) {
    CloseInOtherPrograms(socket.native_handle());
    error_code error;
    const std::string from = NetworkOf(socket.remote_endpoint(error).address());
    if (error) return;  // the client is gone
    const auto is_from = [&](const Open& one) { return one.from == from; };
    if (std::count_if(open_.begin(), open_.end(), is_from) >= static_cast<std::ptrdiff_t>(kConnectionsPerAddressMax)) {
      CloseOldest(is_from);
    } else if (open_.size() >= kConnectionsMax) {
      CloseOldest();
    }
    open_.push_back({MakeHttpConnection(std::move(socket), tls_.get(), options_.times, this), from});
    open_.back().connection->Begin();
  }

  // Closes, of those connections, the one that has waited longest for its request; if all have sent it, the oldest.
  // Returns false if there is none.
  template <class Which>
  bool CloseOldest(const Which& which) {
    auto found = std::find_if(open_.begin(), open_.end(),
                              [&](const Open& one) { return which(one) && !one.connection->has_asked(); });
    if (found == open_.end()) found = std::find_if(open_.begin(), open_.end(), which);
    if (found == open_.end()) return false;
    found->connection->Close();
    open_.erase(found);
    return true;
  }
  bool CloseOldest() {
    return CloseOldest([](const Open&) { return true; });
  }

  void OnRequest(const std::shared_ptr<HttpConnection>& connection, HttpRequest request) override {
    if (const auto response = options_.at_once(request)) return connection->Answer(*response);
    if (!pages_.Push({connection, std::move(request)}).ok())
      connection->Answer({.status = 503, .body = "too many requests wait; ask again later\n"});
  }

  void OnEnd(const HttpConnection& connection) override {
    std::erase_if(open_, [&](const Open& one) { return one.connection.get() == &connection; });
    reserve_.Refill();
  }

  // ---- on "http-pages"

  void RunPages() {
    pthread_setname_np(pthread_self(), "http-pages");
    Clock::time_point next_look = Clock::now() + kLookEvery;
    while (!pages_.closed()) {
      if (const auto page = pages_.PopUntil(next_look)) Make(*page);
      if (Clock::now() < next_look) continue;
      next_look = Clock::now() + kLookEvery;
      if (!options_.certificate.empty()) LookAtCertificate();
    }
  }

  void Make(const Page& page) {
    if (page.from.expired()) return;
    HttpResponse response;
    try {
      response = options_.page(page.request);
    } catch (const std::exception& error) {
      response = {.status = 500, .body = std::string("failed: ") + error.what() + "\n"};
    }
    asio::post(io_, [from = page.from, response = std::move(response)] {
      if (const auto connection = from.lock()) connection->Answer(response);
    });
  }

  void LookAtCertificate() {
    const Result<TlsContext> context = tls_files_.ReadIfChanged();
    const std::string why = context.status().message();
    if (why != certificate_trouble_ && !why.empty()) options_.warn(why + "; the former certificate stays in use");
    certificate_trouble_ = why;
    if (context.ok() && *context != nullptr) {
      asio::post(io_, [this, fresh = *context] { tls_ = fresh; });
    }
  }

  const HttpServerOptions options_;
  std::uint16_t port_ = 0;
  // "http" owns these, once it runs.
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer pause_{io_};
  DescriptorReserve reserve_;
  TlsContext tls_;          // null: no TLS
  std::vector<Open> open_;  // in the order of their arrival
  // "http-pages" owns these, once it runs.
  TlsFiles tls_files_;
  std::string certificate_trouble_;  // that was warned of; empty: none

  Mailbox<Page> pages_{2 * kConnectionsMax};
  std::thread loop_, pages_thread_;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options) {
  try {
    auto impl = std::make_unique<Impl>(std::move(options));
    CAPSTAN_RETURN_IF_ERROR(impl->Start());
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
  } catch (const std::exception& error) {  // no descriptor, no thread
    return Unreachable(error.what());
  }
}

std::uint16_t HttpServer::port() const { return impl_->port(); }

}  // namespace capstan::monitoring
