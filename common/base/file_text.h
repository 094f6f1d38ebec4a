// ReadFileText: the text of a small file, or the first part of a larger one.
//
// Kind:   function.
// Limits: `most` bytes are read; ask for one more than are allowed, and the text's size tells whether it has too many.
// Fails:  kInvalid: it cannot be opened or read, because it is not there, is a folder, or is in /proc and its process
//         has just ended; kBusy: this process has no descriptor left. The message is the system's reason only, without
//         the path.
// Why:    iterators over a stream's buffer, and parsers that read from one, throw where a read fails.
#pragma once

#include <cstddef>
#include <string>

#include "common/base/status.h"

namespace capstan {

Result<std::string> ReadFileText(const std::string& path, std::size_t most);

}  // namespace capstan
