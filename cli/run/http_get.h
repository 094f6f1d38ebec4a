// HttpGet: the body of a small page of one of this job's processes.
//
// Kind:   blocks the caller.
// Limits: kHttpSeconds for every step of it, kHttpBytesMax of an answer.
// Fails:  kUnreachable: nobody answers there, or with something else than 200.
#pragma once

#include <cstddef>
#include <string>

#include "common/base/status.h"

namespace capstan::cli {

inline constexpr int kHttpSeconds = 5;
inline constexpr std::size_t kHttpBytesMax = std::size_t{1} << 20;

// `address`: "host:port" in numbers. `path`: "/api/v1/status".
Result<std::string> HttpGet(const std::string& address, const std::string& path);

}  // namespace capstan::cli
