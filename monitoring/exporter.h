// Exporter: serves /metrics (Prometheus text), / (status page), /api/v1/status (JSON) and /healthz over HTTP. If its
// options have http_sd_json, it also serves /http_sd, a list of processes for Prometheus' http_sd_configs.
//
// Kind:   owned by the thread that started it. The exporter's own threads only read; the destructor stops and joins
//         them.
// Limits: GET and HEAD without a body; those of http_server.h. A request whose field Host has another name than this
//         process is refused. On an address that other machines reach it needs a token or TLS. /healthz asks for
//         neither name nor token, and its answer waits for no other client.
// Fails:  kInvalid for an address that cannot be listened on, and for a token or certificate that cannot be used, with
//         the reason and what to do.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "monitoring/registry.h"

namespace capstan::monitoring {

struct ExporterOptions {
  // host:port with a numeric host, "[::1]:9100" for IPv6; port 0 takes a free one.
  std::string listen = "127.0.0.1:0";
  std::string token_file = {};             // its token is asked for; empty: none is
  std::string certificate = {}, key = {};  // files in PEM for https; empty: http
  std::vector<std::string> hosts = {};     // names of this process, besides its address
  // Returns the JSON object behind / and /api/v1/status. Called on one of the exporter's threads.
  std::function<std::string()> status_json = [] { return std::string("{}"); };
  // Returns the JSON object behind /api/v1/history, on that thread: the curves and events of a job, with which / is the
  // live page of the job. If it is null, there is no such object, and / shows the status as tables.
  std::function<std::string()> history_json = nullptr;
  // Returns the JSON list behind /http_sd, on that thread. If it is null, there is no such page.
  std::function<std::string()> http_sd_json = nullptr;
  // Called on that thread when the token's file or the certificate cannot be used any more, once for each reason.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

class Exporter {
 public:
  static Result<std::unique_ptr<Exporter>> Start(ExporterOptions options, std::shared_ptr<const Registry> registry);
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // Returns the host:port to connect to, with the port that was taken, and with 127.0.0.1 for 0.0.0.0.
  std::string address() const;

 private:
  struct Impl;
  explicit Exporter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace capstan::monitoring
