// ConnectGlooAllReduce: Gloo's own ring, as a comparison for all-reduce.
//
// Kind:   owned by one thread.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "common/base/status.h"

namespace capstan::bench {

// Replaces `data` by the sum over all ranks. Its last copy closes the connections.
using PlainAllReduce = std::function<Status(std::span<float> data)>;

// kUnsupported in a build without Gloo.
Status CheckGloo();
// The ranks find each other through `folder`, which exists.
Result<PlainAllReduce> ConnectGlooAllReduce(int rank, int size, const std::string& folder);

}  // namespace capstan::bench
