// Exporter: serves /metrics (Prometheus text), / (status page), /api/v1/status (JSON) and /healthz over HTTP, and where
// its owner knows of other processes, /http_sd (JSON, for Prometheus' http_sd_configs).
//
// Kind:   owned by whoever started it; its own threads only read. The destructor stops and joins them.
// Limits: GET and HEAD; kExporterThreads connections at once, silent ones too, 2 s each, 16 KiB of request; no TLS,
//         no authentication: listen on loopback or inside a trusted network. The process ignores SIGPIPE from then
//         on.
// Fails:  kInvalid for an address that cannot be listened on, saying which, why and what to do.
// Why:    exporter.cc is the one file that knows prometheus-cpp and civetweb.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "monitoring/registry.h"

namespace capstan::monitoring {

inline constexpr int kExporterThreads = 64;  // asleep: civetweb gives each open connection one

struct ExporterOptions {
  // host:port with a numeric host, "[::1]:9100" for IPv6; port 0 takes a free one.
  std::string listen = "127.0.0.1:0";
  // The JSON object behind / and /api/v1/status. Called on the exporter's threads, several at once.
  std::function<std::string()> status_json = [] { return std::string("{}"); };
  // The JSON list behind /http_sd, called alike; none: there is no such page.
  std::function<std::string()> http_sd_json = nullptr;
};

// The text that /metrics answers.
std::string PrometheusText(const Registry& registry);

class Exporter {
 public:
  static Result<std::unique_ptr<Exporter>> Start(ExporterOptions options, std::shared_ptr<const Registry> registry);
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // host:port as one can connect to it: the port that was taken; 127.0.0.1 for 0.0.0.0.
  std::string address() const;

 private:
  struct Impl;
  explicit Exporter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace capstan::monitoring
