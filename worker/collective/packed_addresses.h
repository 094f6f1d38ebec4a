// PackAddresses: where each of the other ranks finds this one, as one text.
//
// Kind:   pure functions.
// Fails:  kInvalid: what another rank sent is not such a text, or has another number of addresses.
// Why:    a device listens at one address, and its connections differ in a number of two or three bytes. What all have
//         in common is said once: 255 ranks find each other by 430 KB, which fit a message, instead of 26 MB.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace capstan::collective {

// All of one size, below 64 KiB.
std::string PackAddresses(const std::vector<std::string>& addresses);
Result<std::vector<std::string>> UnpackAddresses(std::string_view packed, std::size_t count);

}  // namespace capstan::collective
