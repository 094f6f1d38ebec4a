// PushWay: who pushes a gradient.
#pragma once

#include <cstdint>

namespace capstan::client {

// kHeld: another worker of this machine is to push it, in a sum; it stays here in case that it does not.
enum class PushWay : std::uint8_t { kNow, kHeld };

}  // namespace capstan::client
