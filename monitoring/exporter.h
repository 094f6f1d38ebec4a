// Exporter: serves /metrics (Prometheus text), / (status page), /api/v1/status (JSON) and /healthz over HTTP. If its
// options have http_sd_json, it also serves /http_sd, a list of processes for Prometheus' http_sd_configs.
//
// Kind:   owned by the thread that started it. The exporter's own threads only read; the destructor stops and joins
//         them.
// Limits: GET and HEAD; kExporterThreads connections at once, idle ones included, 2 s each, 16 KiB of request. No TLS
//         and no authentication: listen on loopback or in a trusted network. Start makes the process ignore SIGPIPE.
// Fails:  kInvalid for an address that cannot be listened on, with the reason and what to do.
// Why:    only exporter.cc uses prometheus-cpp and civetweb.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "monitoring/registry.h"

namespace capstan::monitoring {

inline constexpr int kExporterThreads = 64;  // mostly asleep: each open connection has one

struct ExporterOptions {
  // host:port with a numeric host, "[::1]:9100" for IPv6; port 0 takes a free one.
  std::string listen = "127.0.0.1:0";
  // Returns the JSON object behind / and /api/v1/status. Called on the exporter's threads, on several at once.
  std::function<std::string()> status_json = [] { return std::string("{}"); };
  // Returns the JSON list behind /http_sd; called on several threads at once. If it is null, there is no such page.
  std::function<std::string()> http_sd_json = nullptr;
};

// Returns the body of /metrics.
std::string PrometheusText(const Registry& registry);

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
