#include "monitoring/http_connection.h"

#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

namespace capstan::monitoring {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Encrypted = beast::ssl_stream<beast::tcp_stream>;

constexpr std::size_t kReadBytesMax = 4 * kHeadBytesMax;  // of what a client sends after its request

std::string TextOf(boost::beast::string_view text) { return {text.data(), text.size()}; }

// The status for a request that could not be read; 0: the client is gone.
int StatusOf(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::body_limit) return 413;
  const bool is_protocol = error.category() == make_error_code(http::error::bad_method).category();
  const bool is_end = error == http::error::end_of_stream || error == http::error::partial_message;
  return is_protocol && !is_end ? 400 : 0;
}

const char* WordsFor(int status) {
  switch (status) {
    case 405: return "only GET and HEAD\n";
    case 413: return "a request has no body here\n";
    case 431: return "the head of a request has at most 16 KiB here\n";
    default: return "this is no request of HTTP/1.1\n";
  }
}

template <class Stream>
class ConnectionOver final : public HttpConnection, public std::enable_shared_from_this<ConnectionOver<Stream>> {
 public:
  template <class... Arguments>
  ConnectionOver(const HttpTimes& times, Owner* owner, Arguments&&... arguments)
      : times_(times), owner_(owner), stream_(std::forward<Arguments>(arguments)...) {
    parser_.header_limit(kHeadBytesMax);
    parser_.body_limit(0);
  }

  void Begin() override {
    transport().expires_after(times_.request);
    if constexpr (std::is_same_v<Stream, Encrypted>) {
      stream_.async_handshake(asio::ssl::stream_base::server, [self = this->shared_from_this()](error_code error) {
        error ? self->End() : self->ReadHead();
      });
    } else {
      ReadHead();
    }
  }

  void Answer(const HttpResponse& response) override {
    answer_.version(11);
    answer_.result(static_cast<unsigned>(response.status));
    answer_.set(http::field::content_type, response.type);
    answer_.content_length(response.body.size());
    answer_.set(http::field::connection, "close");
    answer_.set(http::field::cache_control, "no-store");
    answer_.set("X-Content-Type-Options", "nosniff");
    answer_.set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'");
    if (response.status == 405) answer_.set(http::field::allow, "GET, HEAD");
    if (response.asks_for_token) answer_.set(http::field::www_authenticate, "Bearer");
    if (parser_.get().method() != http::verb::head) answer_.body() = response.body;
    transport().expires_after(times_.answer);
    http::async_write(stream_, answer_, [self = this->shared_from_this()](error_code error, std::size_t) {
      error ? self->End() : self->SayGoodbye();
    });
  }

  void Close() override { transport().close(); }
  bool has_asked() const override { return has_asked_; }

 private:
  beast::tcp_stream& transport() { return beast::get_lowest_layer(stream_); }

  void ReadHead() {
    http::async_read_header(
        stream_, buffer_, parser_,
        [self = this->shared_from_this()](error_code error, std::size_t) { self->HandleHead(error); });
  }

  void HandleHead(const error_code& error) {
    const int status = error ? StatusOf(error) : CheckHead();
    if (error && status == 0) return End();
    has_asked_ = true;
    if (status != 0) return Answer({.status = status, .body = WordsFor(status)});
    const auto& head = parser_.get();
    HttpRequest request;
    request.path = TextOf(head.target().substr(0, head.target().find('?')));
    if (head.count(http::field::host) != 0) request.host = TextOf(head[http::field::host]);
    request.authorization = TextOf(head[http::field::authorization]);
    error_code ignored;
    asio::ip::address local = transport().socket().local_endpoint(ignored).address();
    if (local.is_v6() && local.to_v6().is_v4_mapped())
      local = asio::ip::make_address_v4(asio::ip::v4_mapped, local.to_v6());
    request.arrived_at = local.to_string();
    owner_->OnRequest(this->shared_from_this(), std::move(request));
  }

  // Returns the status with which a request is refused that follows the grammar; 0: none.
  int CheckHead() const {
    const auto& head = parser_.get();
    if (head.count(http::field::transfer_encoding) != 0) return 413;
    if (head.method() != http::verb::get && head.method() != http::verb::head) return 405;
    const std::size_t hosts = head.count(http::field::host);
    const bool is_ambiguous = hosts > 1 || head.count(http::field::authorization) > 1;
    const bool is_page = head.target().starts_with('/');
    return is_ambiguous || !is_page || (head.version() >= 11 && hosts == 0) ? 400 : 0;
  }

  void SayGoodbye() {
    if constexpr (std::is_same_v<Stream, Encrypted>) {
      stream_.async_shutdown([self = this->shared_from_this()](error_code) { self->End(); });
    } else {
      End();
    }
  }

  // Closes the connection. What the client has sent too much is read first: if it were left, the system would reset the
  // connection, and the client might lose the answer.
  void End() {
    error_code error;
    tcp::socket& socket = transport().socket();
    socket.shutdown(tcp::socket::shutdown_send, error);
    socket.non_blocking(true, error);
    std::array<char, 4096> bytes;
    for (std::size_t read = 0; !error && read < kReadBytesMax;) read += socket.read_some(asio::buffer(bytes), error);
    transport().close();
    owner_->OnEnd(*this);
  }

  const HttpTimes times_;
  Owner* const owner_;
  Stream stream_;
  beast::flat_buffer buffer_{kHeadBytesMax};
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> answer_;
  bool has_asked_ = false;
};

}  // namespace

std::shared_ptr<HttpConnection> MakeHttpConnection(tcp::socket socket, asio::ssl::context* tls, const HttpTimes& times,
                                                   HttpConnection::Owner* owner) {
  if (tls == nullptr) return std::make_shared<ConnectionOver<beast::tcp_stream>>(times, owner, std::move(socket));
  return std::make_shared<ConnectionOver<Encrypted>>(times, owner, std::move(socket), *tls);
}

}  // namespace capstan::monitoring
