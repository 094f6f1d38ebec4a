// Sha256OfFile: the sum that `sha256sum FILE` prints.
//
// Kind:   function; reads the file once.
// Fails:  kUnreachable: it cannot be read.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan::cli {

// 64 digits, small letters.
Result<std::string> Sha256OfFile(const std::string& path);

}  // namespace capstan::cli
