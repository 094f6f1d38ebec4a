// A file that grows without end is cut into pieces: FOLDER/NAME.EXT is the newest, FOLDER/NAME.1.EXT the first, and of
// those between only the newest few are kept.
//
// Kind:   functions.
// Why:    numbers rise and a piece keeps its name, so that a reader who follows the file finds where it was.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan {

// The older pieces of the file at `path`, the oldest first.
std::vector<std::string> FormerFiles(const std::string& path);

// The file becomes the newest of its former ones, of which `most` stay, and there is none at `path`. Durable.
Status RotateFile(const std::string& path, std::size_t most);

}  // namespace capstan
