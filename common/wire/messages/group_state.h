// GroupState: how far a worker is in forming its group.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

// kLost: nobody in the group has the version that the job is at.
enum class GroupState : std::uint8_t { kNone = 0, kOffered = 1, kFormed = 2, kBroken = 3, kLost = 4 };

}  // namespace capstan
