// PushWay: whether this worker sends a push itself.
#pragma once

#include <cstdint>

namespace capstan::session {

// kDeferred: another worker of this machine is to push the gradient as part of a sum. Until a shard has it, the session
// keeps the push, in case the other worker fails.
enum class PushWay : std::uint8_t { kNow, kDeferred };

}  // namespace capstan::session
