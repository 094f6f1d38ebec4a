// ByteStream: the bytes of one client, plain or over TLS.
//
// Kind:   used only on the server's loop thread. One operation at a time; its owner keeps the stream until `done` is
//         called, which never happens inside the call that begins an operation.
// Why:    a connection is compiled once for both kinds: Boost's templates for TLS take a compiler long.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace capstan::monitoring {

class ByteStream {
 public:
  using Done = std::function<void(const boost::system::error_code&, std::size_t bytes)>;

  virtual ~ByteStream() = default;
  // Does TLS's handshake. Over a plain stream there is none.
  virtual void Begin(Done done) = 0;
  // Reads what there is, at least a byte.
  virtual void ReadSome(char* to, std::size_t bytes_max, Done done) = 0;
  // Writes all of it. The text stays until then.
  virtual void Write(const std::string& text, Done done) = 0;
  // Tells the client by TLS that this was all. Over a plain stream the end of the connection does.
  virtual void End(Done done) = 0;
  virtual boost::asio::ip::tcp::socket& socket() = 0;
};

// `tls`: null: plain. It may be replaced while the stream lives.
std::unique_ptr<ByteStream> MakeByteStream(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls);

}  // namespace capstan::monitoring
