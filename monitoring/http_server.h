// HttpServer: hands requests to their answers, over http or https.
//
// Kind:   owned by the thread that started it. It has two threads: "http" holds all connections and calls `at_once`;
//         "http-pages" calls `page`. The destructor closes every connection and joins both.
// Limits: kConnectionsMax connections, kConnectionsPerAddressMax of one IPv4 address or IPv6 network of 64 bits; one
//         more closes the oldest, first of those that have not sent their request. Those of http_connection.h for each.
//         When the process has no descriptor left, it accepts with those of DescriptorReserve.
// Fails:  kInvalid: it cannot listen there, or the certificate cannot be used; says why and what to do.
// Why:    a thread for each connection, as in many servers that can be embedded, lets slow clients take all threads,
//         and then nobody is answered. Here a client that sends nothing takes no thread, and is the first to be closed.
//         `at_once` has a thread of its own, so that pages, which may wait for a lock or a disk, do not hold it up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "monitoring/http_message.h"

namespace capstan::monitoring {

inline constexpr std::size_t kConnectionsMax = 256, kConnectionsPerAddressMax = 128;

struct HttpServerOptions {
  std::string host;  // numeric; IPv6 without brackets
  std::uint16_t port = 0;
  std::string certificate = {}, key = {};  // files in PEM for https; empty: http
  // Answers what needs no wait; returns nothing for a request that `page` answers.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> at_once;
  std::function<HttpResponse(const HttpRequest&)> page;
  HttpTimes times = {};
  std::function<void(const std::string&)> warn;  // what an operator has to mend; called on "http-pages"
};

class HttpServer {
 public:
  static Result<std::unique_ptr<HttpServer>> Start(HttpServerOptions options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;  // that was taken

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace capstan::monitoring
