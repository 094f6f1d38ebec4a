// ServeMetrics: starts the exporter of a process, by [metrics] of the job file or by the options of a worker.
//
// Kind:   function; the process's main thread owns the result.
// Fails:  kInvalid, kUnreachable: there is no such address, or it must not be served there (monitoring/exporter.h).
// Why:    host "auto" is to work for every job without a word in its file, so it is an address that other machines
//         reach only where readers need a token, or where TLS is set up. Otherwise the metrics are served to this
//         machine only.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/config/job/metrics_section.h"
#include "monitoring/exporter.h"

namespace capstan::cli {

struct ServedMetrics {
  std::unique_ptr<monitoring::Exporter> exporter;
  std::string address;     // at which others reach it: HOST:PORT, or https://HOST:PORT
  bool only_here = false;  // host "auto" became a loopback address, because nothing protects another one

  // Returns "metrics at http://HOST:PORT/", with what to do if only this machine is served.
  std::string Words() const;
};

// `own_host`: what host "auto" stands for. `reached`: the host by which others reach a socket that is bound to all
// addresses of this machine. `pages`: what is served.
Result<ServedMetrics> ServeMetrics(const MetricsSection& section, const Result<std::string>& own_host,
                                   const std::string& reached, monitoring::ExporterOptions pages,
                                   std::shared_ptr<const monitoring::Registry> registry);

// ServeMetrics for a process that is not the coordinator: both hosts are its address that leads to the coordinator.
Result<ServedMetrics> ServeOwnMetrics(const MetricsSection& section, const std::string& coordinator,
                                      monitoring::ExporterOptions pages,
                                      std::shared_ptr<const monitoring::Registry> registry);

}  // namespace capstan::cli
