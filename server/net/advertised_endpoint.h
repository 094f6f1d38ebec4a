// AdvertisedEndpoint: the address under which other processes reach a socket that is bound here.
//
// Kind:   pure function, apart from a look-up of this machine's names.
// Fails:  kInvalid if the socket listens on all addresses and no host is given, or if the given host is unknown here.
//         So a wrong host fails at the start and not at the workers.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan::server {

// `bound`: an endpoint as the transport returned it; one that is not tcp://host:port is returned unchanged. `host`:
// host to advertise; empty: the bound host. `key`: the address's key in the job file, for the message.
Result<std::string> AdvertisedEndpoint(const std::string& bound, const std::string& host, const std::string& key);

}  // namespace capstan::server
