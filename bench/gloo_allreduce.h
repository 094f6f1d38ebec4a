// ConnectGlooAllReduce: Gloo's own ring, for all-reduce beside it.
//
// Kind:   owned by one thread.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "common/base/status.h"

namespace capstan::bench {

// Makes `data` the sum of all ranks'; gone with its last copy.
using PlainAllReduce = std::function<Status(std::span<float> data)>;

// kUnsupported in a build without Gloo.
Status CheckGloo();
// The ranks meet in `folder`, which exists.
Result<PlainAllReduce> ConnectGlooAllReduce(int rank, int size, const std::string& folder);

}  // namespace capstan::bench
