#include "monitoring/http_connection.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "monitoring/byte_stream.h"

namespace capstan::monitoring {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kSurplusBytesMax = 4 * kHeadBytesMax;  // of what a client sends after its request

std::string TextOf(beast::string_view text) { return {text.data(), text.size()}; }

std::string TextOf(const asio::ip::address& address) {
  const bool is_mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return is_mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string() : address.to_string();
}

// The status for a head that does not follow the grammar.
int StatusOf(const error_code& error) {
  if (error == http::error::header_limit) return 431;
  return error == http::error::body_limit ? 413 : 400;
}

const char* WordsFor(int status) {
  switch (status) {
    case 405: return "only GET and HEAD\n";
    case 413: return "a request has no body here\n";
    case 431: return "the head of a request has at most 16 KiB here\n";
    default: return "this is no request of HTTP/1.1\n";
  }
}

std::string HeadOf(const HttpResponse& response) {
  const beast::string_view reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(response.status)));
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " " + TextOf(reason) + "\r\n";
  head += "Content-Type: " + response.type + "\r\nContent-Length: " + std::to_string(response.body.size()) +
          "\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
          "Referrer-Policy: no-referrer\r\n"
          "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
          "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n";
  if (response.status == 405) head += "Allow: GET, HEAD\r\n";
  if (response.asks_for_token) head += "WWW-Authenticate: Bearer\r\n";
  return head + "\r\n";
}

class Connection final : public HttpConnection, public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::unique_ptr<ByteStream> stream, const HttpTimes& times, Owner* owner)
      : times_(times), owner_(owner), stream_(std::move(stream)), timer_(stream_->socket().get_executor()) {
    parser_.header_limit(kHeadBytesMax);
    parser_.body_limit(0);
  }

  void Begin() override {
    CloseAfter(times_.request);
    stream_->Begin(
        [self = shared_from_this()](const error_code& error, std::size_t) { error ? self->End() : self->ReadHead(); });
  }

  void Answer(const HttpResponse& response) override {
    answer_ = HeadOf(response);
    if (parser_.get().method() != http::verb::head) answer_ += response.body;
    CloseAfter(times_.answer);
    stream_->Write(answer_, [self = shared_from_this()](const error_code& error, std::size_t) {
      error ? self->End() : self->SayGoodbye();
    });
  }

  void Close() override {
    error_code ignored;
    timer_.cancel();
    stream_->socket().close(ignored);
  }
  bool has_asked() const override { return has_asked_; }

 private:
  // Closes the connection after that time, unless it is called again before.
  void CloseAfter(std::chrono::milliseconds time) {
    timer_.expires_after(time);
    timer_.async_wait([weak = weak_from_this()](const error_code& error) {
      const auto self = weak.lock();
      if (!error && self != nullptr && self->timer_.expiry() <= asio::steady_timer::clock_type::now()) self->Close();
    });
  }

  void ReadHead() {
    stream_->ReadSome(head_.data() + head_bytes_, head_.size() - head_bytes_,
                      [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                        error ? self->End() : self->HandleBytes(bytes);
                      });
  }

  void HandleBytes(std::size_t bytes) {
    head_bytes_ += bytes;
    error_code error;
    parsed_bytes_ += parser_.put(asio::buffer(head_.data() + parsed_bytes_, head_bytes_ - parsed_bytes_), error);
    if (error == http::error::need_more && head_bytes_ < head_.size()) return ReadHead();
    has_asked_ = true;
    timer_.expires_at(asio::steady_timer::time_point::max());  // a page takes the time that it takes
    if (error == http::error::need_more) error = http::error::header_limit;
    const int status = error ? StatusOf(error) : CheckHead();
    if (status != 0) return Answer({.status = status, .body = WordsFor(status)});
    owner_->OnRequest(shared_from_this(), Request());
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

  HttpRequest Request() {
    const auto& head = parser_.get();
    HttpRequest request;
    request.path = TextOf(head.target().substr(0, head.target().find('?')));
    if (head.count(http::field::host) != 0) request.host = TextOf(head[http::field::host]);
    request.authorization = TextOf(head[http::field::authorization]);
    error_code ignored;
    request.arrived_at = TextOf(stream_->socket().local_endpoint(ignored).address());
    return request;
  }

  void SayGoodbye() {
    stream_->End([self = shared_from_this()](const error_code&, std::size_t) { self->End(); });
  }

  // Closes the connection. What the client has sent too much is read first: if it were left, the system would reset the
  // connection, and the client might lose the answer.
  void End() {
    error_code error;
    tcp::socket& socket = stream_->socket();
    socket.shutdown(tcp::socket::shutdown_send, error);
    socket.non_blocking(true, error);
    std::array<char, 4096> bytes;
    for (std::size_t read = 0; !error && read < kSurplusBytesMax;) read += socket.read_some(asio::buffer(bytes), error);
    Close();
    owner_->OnEnd(*this);
  }

  const HttpTimes times_;
  Owner* const owner_;
  const std::unique_ptr<ByteStream> stream_;
  asio::steady_timer timer_;
  std::array<char, kHeadBytesMax> head_{};
  std::size_t head_bytes_ = 0, parsed_bytes_ = 0;  // of head_: received, and taken by the parser
  http::request_parser<http::empty_body> parser_;
  std::string answer_;
  bool has_asked_ = false;
};

}  // namespace

std::shared_ptr<HttpConnection> MakeHttpConnection(tcp::socket socket, asio::ssl::context* tls, const HttpTimes& times,
                                                   HttpConnection::Owner* owner) {
  return std::make_shared<Connection>(MakeByteStream(std::move(socket), tls), times, owner);
}

}  // namespace capstan::monitoring
