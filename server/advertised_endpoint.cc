#include "server/advertised_endpoint.h"

namespace capstan::server {

Result<std::string> AdvertisedEndpoint(const std::string& bound, const std::string& host, const std::string& key) {
  const std::string scheme = "tcp://";
  const std::size_t colon = bound.rfind(':');
  if (!bound.starts_with(scheme) || colon < scheme.size()) return bound;  // ipc
  const std::string own = bound.substr(scheme.size(), colon - scheme.size());
  if (!host.empty()) {
    const bool bare_v6 = host.find(':') != host.npos && !host.starts_with('[');
    return scheme + (bare_v6 ? "[" + host + "]" : host) + bound.substr(colon);
  }
  if (own == "0.0.0.0" || own == "*" || own == "[::]") {
    return Invalid(key + " is every address of this machine (" + own +
                   "); set cluster.advertise to the name or address that the others reach it by");
  }
  return bound;
}

}  // namespace capstan::server
