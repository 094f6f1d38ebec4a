#include "server/net/advertised_endpoint.h"

#include <netdb.h>
#include <sys/socket.h>

namespace capstan::server {
namespace {

Status CheckKnown(const std::string& host) {
  const bool in_brackets = host.starts_with('[') && host.ends_with(']');
  const std::string name = in_brackets ? host.substr(1, host.size() - 2) : host;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found);
  if (error == 0) {
    freeaddrinfo(found);
    return {};
  }
  return Invalid("cluster.advertise = \"" + host + "\": this host is not known (" + gai_strerror(error) +
                 "); write the name or address that the others reach this machine by, without a port");
}

}  // namespace

Result<std::string> AdvertisedEndpoint(const std::string& bound, const std::string& host, const std::string& key) {
  const std::string scheme = "tcp://";
  const std::size_t colon = bound.rfind(':');
  if (!bound.starts_with(scheme) || colon < scheme.size()) return bound;  // ipc
  const std::string own = bound.substr(scheme.size(), colon - scheme.size());
  if (!host.empty()) {
    CAPSTAN_RETURN_IF_ERROR(CheckKnown(host));
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
