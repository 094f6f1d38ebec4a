#include "monitoring/byte_stream.h"

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <utility>

namespace capstan::monitoring {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(tcp::socket socket) : socket_(std::move(socket)) {}

  void Begin(Done done) override { DoNothing(std::move(done)); }
  void ReadSome(char* to, std::size_t bytes_max, Done done) override {
    socket_.async_read_some(asio::buffer(to, bytes_max), std::move(done));
  }
  void Write(const std::string& text, Done done) override {
    asio::async_write(socket_, asio::buffer(text), std::move(done));
  }
  void End(Done done) override { DoNothing(std::move(done)); }
  tcp::socket& socket() override { return socket_; }

 private:
  void DoNothing(Done done) {
    asio::post(socket_.get_executor(), [done = std::move(done)] { done({}, 0); });
  }

  tcp::socket socket_;
};

class TlsStream final : public ByteStream {
 public:
  TlsStream(tcp::socket socket, asio::ssl::context* tls) : stream_(std::move(socket), *tls) {}

  void Begin(Done done) override {
    stream_.async_handshake(asio::ssl::stream_base::server, WithoutBytes(std::move(done)));
  }
  void ReadSome(char* to, std::size_t bytes_max, Done done) override {
    stream_.async_read_some(asio::buffer(to, bytes_max), std::move(done));
  }
  void Write(const std::string& text, Done done) override {
    asio::async_write(stream_, asio::buffer(text), std::move(done));
  }
  void End(Done done) override { stream_.async_shutdown(WithoutBytes(std::move(done))); }
  tcp::socket& socket() override { return stream_.next_layer(); }

 private:
  static std::function<void(const error_code&)> WithoutBytes(Done done) {
    return [done = std::move(done)](const error_code& error) { done(error, 0); };
  }

  asio::ssl::stream<tcp::socket> stream_;
};

}  // namespace

std::unique_ptr<ByteStream> MakeByteStream(tcp::socket socket, asio::ssl::context* tls) {
  if (tls == nullptr) return std::make_unique<PlainStream>(std::move(socket));
  return std::make_unique<TlsStream>(std::move(socket), tls);
}

}  // namespace capstan::monitoring
