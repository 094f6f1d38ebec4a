// HttpRequest, HttpResponse: what a client of the exporter asks, and its answer. HttpTimes: how long it has.
//
// Kind:   values.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace capstan::monitoring {

struct HttpRequest {
  std::string path;                 // as the client wrote it, without the query
  std::optional<std::string> host;  // the field Host; HTTP/1.0 may leave it out
  std::string authorization;        // the field Authorization; empty: none
  std::string arrived_at;           // the address of this machine that the client connected to, without the port
};

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  bool asks_for_token = false;  // tells the client that a token would help
};

// How long a client has.
struct HttpTimes {
  std::chrono::milliseconds request{
      2000};  // from the connection to the end of its request's head, with TLS's handshake
  std::chrono::milliseconds answer{10000};  // to take the answer
};

}  // namespace capstan::monitoring
