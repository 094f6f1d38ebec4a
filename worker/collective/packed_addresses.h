// PackAddresses: packs the addresses under which other ranks connect to this one into one string.
//
// Kind:   pure functions.
// Fails:  kInvalid: another rank's string is malformed, or has another number of addresses.
// Why:    a rank listens at one address, and Gloo's addresses of its connections differ only in a number of two or
//         three bytes. The common parts are sent once, so 255 ranks exchange about 430 KB, which fit into a message,
//         instead of 26 MB.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace capstan::collective {

// All addresses have the same size, below 64 KiB.
std::string PackAddresses(const std::vector<std::string>& addresses);
Result<std::vector<std::string>> UnpackAddresses(std::string_view packed, std::size_t count);

}  // namespace capstan::collective
