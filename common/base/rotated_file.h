// Cuts a file that grows without end into pieces. FOLDER/NAME.EXT is the newest piece; the older ones are
// FOLDER/NAME.1.EXT, NAME.2.EXT and so on, the oldest with the least number. Only a few older pieces are kept.
//
// Kind:   functions.
// Why:    a piece keeps its number, so a program that follows the file finds its place again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan {

// Lists the older pieces of the file at `path`, oldest first.
std::vector<std::string> FormerFiles(const std::string& path);

// Renames the file at `path`, which becomes the newest of the older pieces, and deletes all but the newest `most` of
// the older pieces. The renaming is durable on return.
Status RotateFile(const std::string& path, std::size_t most);

}  // namespace capstan
