// HttpGet: fetches a small page from one of this job's processes.
//
// Kind:   blocks the caller.
// Limits: kHttpSeconds for all of it. Reading stops after about kHttpBytesMax.
// Fails:  kUnreachable: no answer, a status other than 200, or another certificate; kInvalid: the token's file or the
//         certificate's cannot be used; kUnsupported: there is no such page (404). No message has the token.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "common/base/status.h"
#include "common/config/job/metrics_section.h"

namespace capstan::cli {

inline constexpr int kHttpSeconds = 5;
inline constexpr std::size_t kHttpBytesMax = std::size_t{1} << 20;

// Returns the body of a page. `address`: numeric "host:port" of the process. `path`: the page, such as
// "/api/v1/status". `section`: how the process serves it: with the token it asks for, and over https if it has a
// certificate. The process must have exactly that certificate, whatever name and time the certificate is for.
// `goes_on` is asked several times a second; where it returns false, the request is given up.
Result<std::string> HttpGet(
    const std::string& address, const std::string& path, const MetricsSection& section,
    const std::function<bool()>& goes_on = [] { return true; });

}  // namespace capstan::cli
