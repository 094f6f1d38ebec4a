// ConnectGlooAllReduce: Gloo's own ring all-reduce, with which capstan's is compared.
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
// Connects this rank to the others. They find each other through files in `folder`, which must exist.
Result<PlainAllReduce> ConnectGlooAllReduce(int rank, int size, const std::string& folder);

}  // namespace capstan::bench
