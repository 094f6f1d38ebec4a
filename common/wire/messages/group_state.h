// GroupState: how far a worker is in forming its group.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

// kLost: no member of the group has the job's current version any more.
enum class GroupState : std::uint8_t { kNone = 0, kOffered = 1, kFormed = 2, kBroken = 3, kLost = 4 };

// The first character of the text that a member of a group of mode allreduce offers, before its address: whether it has
// the version that the generation begins with.
inline constexpr char kOffersVersion = '+', kOffersNoVersion = '-';

}  // namespace capstan
