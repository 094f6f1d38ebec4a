// HttpGet: fetches a small page from one of this job's processes.
//
// Kind:   blocks the caller.
// Limits: kHttpSeconds for each call on the socket. Reading stops after about kHttpBytesMax.
// Fails:  kUnreachable: no answer, or a status other than 200.
#pragma once

#include <cstddef>
#include <string>

#include "common/base/status.h"

namespace capstan::cli {

inline constexpr int kHttpSeconds = 5;
inline constexpr std::size_t kHttpBytesMax = std::size_t{1} << 20;

// Returns the body of a page. `address`: numeric "host:port" of the process. `path`: the page, such as
// "/api/v1/status".
Result<std::string> HttpGet(const std::string& address, const std::string& path);

}  // namespace capstan::cli
