// ListFiles: what lies below a folder of data.
//
// Kind:   a pure function over the file system.
// Fails:  kInvalid: a folder that cannot be listed, or has no files that match.
// Why:    sorted, so that every worker reads the same stream wherever its copy lies.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan::train {

// The files below a folder that match a pattern (a pattern with a slash is for the path below the folder, others for
// the name), as paths below it, sorted by their bytes. Links to folders are not followed.
Result<std::vector<std::string>> ListFiles(const std::filesystem::path& folder,
                                           const std::vector<std::string>& include);

}  // namespace capstan::train
