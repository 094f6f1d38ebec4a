// Bounds on the contents of messages.
//
// Kind:   values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/types.h"

namespace capstan {

inline constexpr std::uint64_t kSamplesPerPushMax = std::uint64_t{1} << 24;  // exact in fp32
inline constexpr SlotIndex kSlotsMax = 4096;                                 // slots of a job
inline constexpr std::size_t kWorkersMax = 4096;                             // sessions of a job
// Bytes of a header or of a payload that a worker, a reader or another server may send to a server: a block in fp32, or
// the longest list of nodes.
inline constexpr std::size_t kFrameToShardBytesMax = (std::size_t{1} << 20) + (std::size_t{64} << 10);
inline constexpr std::size_t kFrameBytesMax = std::size_t{16} << 20;  // bytes of a header or of a payload
inline constexpr std::size_t kListEntriesMax = 65536;                 // entries of a list without its own limit
inline constexpr std::size_t kDimensionsMax = 8;                      // dimensions of a tensor
inline constexpr std::size_t kTextBytesMax = 64 << 10;                // bytes of a text without its own limit
inline constexpr std::size_t kJobFileBytesMax = 1 << 20;
inline constexpr std::size_t kProgramStateBytesMax = 64 << 10;
inline constexpr std::size_t kGroupTextBytesMax = std::size_t{64} << 10;

}  // namespace capstan
