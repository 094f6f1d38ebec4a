// AdvertisedEndpoint: the address under which others reach a socket that was bound here.
//
// Kind:   pure function, but for a look at the names that this machine knows.
// Fails:  kInvalid when the socket listens on every address and nothing says which one others know, or when the host to
//         advertise is not known here: then a wrong one is seen at the start, not by workers that wait.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan::server {

// `bound`: tcp://host:port as the transport answered. `host`: what to advertise; empty: the host bound. `key`: the job
// file's name for the address, for the message.
Result<std::string> AdvertisedEndpoint(const std::string& bound, const std::string& host, const std::string& key);

}  // namespace capstan::server
