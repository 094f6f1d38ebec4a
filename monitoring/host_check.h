// IsOwnHost: whether the field Host of a request names the process that got it.
//
// Kind:   pure function.
// Why:    a web page in somebody's browser can give its own name the address of this machine, and then read what is
//         served there as its own (DNS rebinding). The browser still sends that name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace capstan::monitoring {

// `host`: the field, NAME or NAME:PORT; the port does not count. `arrived_at`: the address that the client connected
// to. `names`: further names of this process. Its own are that address and, if it is a loopback address, "localhost"
// and every loopback address.
bool IsOwnHost(std::string_view host, const std::string& arrived_at, const std::vector<std::string>& names);

}  // namespace capstan::monitoring
