// ListFiles: lists the files below a data folder.
//
// Kind:   a pure function over the file system.
// Fails:  kInvalid: a folder that cannot be listed or has no matching files.
// Why:    the files are sorted, so that every worker reads the same stream, whatever order its file system lists.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan::train {

// Returns the files below `folder` that match a pattern of `include`, or all files if `include` is empty. They are
// paths relative to `folder`, sorted by bytes. A pattern with a slash is matched against the relative path, others
// against the file's name. Links to folders are not followed.
Result<std::vector<std::string>> ListFiles(const std::filesystem::path& folder,
                                           const std::vector<std::string>& include);

}  // namespace capstan::train
