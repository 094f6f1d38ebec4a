// Whether this machine's kernel lets a socket listen on an address of another machine (ip_nonlocal_bind).
#pragma once

#include <fstream>

namespace capstan::testing {

inline bool BindsAddressesOfOthers() {
  int set = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_nonlocal_bind") >> set;
  return set != 0;
}

}  // namespace capstan::testing
