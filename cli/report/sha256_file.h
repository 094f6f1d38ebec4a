// Sha256OfFile: the checksum that `sha256sum FILE` prints.
//
// Kind:   function; reads the file once.
// Fails:  kUnreachable: the file cannot be read.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan::cli {

// Returns 64 lower-case hexadecimal digits.
Result<std::string> Sha256OfFile(const std::string& path);

}  // namespace capstan::cli
