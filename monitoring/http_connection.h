// HttpConnection: one client of HttpServer: its request, the answer, the end.
//
// Kind:   used only on the server's loop thread. Pending operations and the server share it.
// Limits: one request: GET or HEAD, no body, a head of kHeadBytesMax; HttpTimes.
// Fails:  a client that breaks the protocol gets a status and is closed; one that is late is closed.
// Why:    no client is waited for: while it sends nothing, it costs a descriptor and this object, and no thread. Its
//         body is never read, so that nobody stays connected by sending one slowly.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstddef>
#include <memory>

#include "monitoring/http_message.h"

namespace capstan::monitoring {

inline constexpr std::size_t kHeadBytesMax = std::size_t{16} << 10;

class HttpConnection {
 public:
  class Owner {
   public:
    // A request is whole. The owner calls Answer, now or later.
    virtual void OnRequest(const std::shared_ptr<HttpConnection>& connection, HttpRequest request) = 0;
    virtual void OnEnd(const HttpConnection& connection) = 0;

   protected:
    ~Owner() = default;
  };

  virtual ~HttpConnection() = default;
  virtual void Begin() = 0;
  virtual void Answer(const HttpResponse& response) = 0;
  // Closes at once. OnEnd may still follow.
  virtual void Close() = 0;
  // Whether the client has sent its whole request.
  virtual bool has_asked() const = 0;
};

// `tls`: for https; null: http. `owner` outlives the connection's operations.
std::shared_ptr<HttpConnection> MakeHttpConnection(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls,
                                                   const HttpTimes& times, HttpConnection::Owner* owner);

}  // namespace capstan::monitoring
