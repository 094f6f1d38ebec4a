#include "cli/run/served_metrics.h"

#include <utility>

#include "cli/run/address.h"
#include "common/base/host_port.h"

namespace capstan::cli {

std::string ServedMetrics::Words() const {
  return "metrics at " + UrlOf(address) + "/" +
         (only_here ? " (for this machine only: neither token_file nor certificate is given)" : "");
}

Result<ServedMetrics> ServeMetrics(const MetricsSection& section, const Result<std::string>& own_host,
                                   const std::string& reached, monitoring::ExporterOptions pages,
                                   std::shared_ptr<const monitoring::Registry> registry) {
  ServedMetrics served;
  if (HostOf(section.listen) == "auto") {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string host, own_host);
    served.only_here = section.token_file.empty() && section.certificate.empty() && !IsLoopback(host);
    pages.listen = WithHost(served.only_here ? "127.0.0.1" : host, section.listen);
  } else {
    CAPSTAN_ASSIGN_OR_RETURN(pages.listen, NumericHost(section.listen));
  }
  pages.token_file = section.token_file;
  pages.certificate = section.certificate;
  pages.key = section.key;
  pages.hosts = section.hosts;
  const std::string listen = pages.listen;
  CAPSTAN_ASSIGN_OR_RETURN(served.exporter, monitoring::Exporter::Start(std::move(pages), std::move(registry)));
  const std::string address = ReachedAt(served.exporter->address(), listen, reached);
  served.address = (section.certificate.empty() ? "" : "https://") + address;
  return served;
}

Result<ServedMetrics> ServeOwnMetrics(const MetricsSection& section, const std::string& coordinator,
                                      monitoring::ExporterOptions pages,
                                      std::shared_ptr<const monitoring::Registry> registry) {
  const Result<std::string> own = ResolveListen("auto:0", coordinator);
  const Result<std::string> host = own.ok() ? Result<std::string>(HostOf(*own)) : own.status();
  return ServeMetrics(section, host, host.ok() ? *host : "127.0.0.1", std::move(pages), std::move(registry));
}

}  // namespace capstan::cli
