// HttpGet: fetches a small page from one of this job's processes.
//
// Kind:   blocks the caller.
// Limits: kHttpSeconds for each call on the socket. Reading stops after about kHttpBytesMax.
// Fails:  kUnreachable: no answer, a status other than 200, or another certificate; kInvalid: the token's file or the
//         certificate's cannot be used. No message has the token.
#pragma once

#include <cstddef>
#include <string>

#include "common/base/status.h"
#include "common/config/job/metrics_section.h"

namespace capstan::cli {

inline constexpr int kHttpSeconds = 5;
inline constexpr std::size_t kHttpBytesMax = std::size_t{1} << 20;

// Returns the body of a page. `address`: numeric "host:port" of the process. `path`: the page, such as
// "/api/v1/status". `section`: how the process serves it: with the token it asks for, and over https if it has a
// certificate. The process must have exactly that certificate, whatever name and time the certificate is for.
Result<std::string> HttpGet(const std::string& address, const std::string& path, const MetricsSection& section);

}  // namespace capstan::cli
