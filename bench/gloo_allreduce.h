// ConnectGlooAllReduce: Gloo's own ring, as a comparison for all-reduce.
//
// Kind:   owned by one thread.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "common/base/status.h"

namespace capstan::bench {

// Replaces `data` by the sum over all ranks. When the last copy of the function is destroyed, the connections close.
using PlainAllReduce = std::function<Status(std::span<float> data)>;

// Returns kUnsupported in a build without Gloo.
Status CheckGloo();
// Connects the ranks, which find each other through `folder`. The folder must exist.
Result<PlainAllReduce> ConnectGlooAllReduce(int rank, int size, const std::string& folder);

}  // namespace capstan::bench
