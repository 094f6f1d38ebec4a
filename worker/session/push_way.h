// PushWay: whether this worker sends a push itself.
#pragma once

#include <cstdint>

namespace capstan::session {

// kDeferred: another worker of this machine will push the gradient as part of a sum. The push stays here in case that
// fails.
enum class PushWay : std::uint8_t { kNow, kDeferred };

}  // namespace capstan::session
