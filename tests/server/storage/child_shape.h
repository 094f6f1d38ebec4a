// The snapshots that storage_child writes: large enough for a process to be killed in the middle of one.
#pragma once

#include "tests/server/storage/storage_tools.h"

namespace capstan::server {

inline constexpr ImageShape kChildShape{.block_count = 24, .elements = 16384, .array_count = 2, .slot_count = 4};

}  // namespace capstan::server
