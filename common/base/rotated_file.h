// Cuts a file that grows without end into pieces: FOLDER/NAME.EXT is the newest; older ones are FOLDER/NAME.1.EXT,
// NAME.2.EXT and so on. Only the newest few of the older pieces are kept.
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
// them. The change is durable when it returns.
Status RotateFile(const std::string& path, std::size_t most);

}  // namespace capstan
