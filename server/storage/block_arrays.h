// kBlockArraysMax: the most arrays that a block has.
#pragma once

#include <cstddef>

namespace capstan::server {

inline constexpr std::size_t kBlockArraysMax = 4;  // weights and three optimizer states

}  // namespace capstan::server
