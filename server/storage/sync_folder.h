// SyncFolder: makes durable which files a folder has; their contents are synced file by file.
//
// Kind:   a function.
// Fails:  kUnreachable: the disk failed, or there is no such folder.
#pragma once

#include <string>

#include "common/status.h"

namespace capstan::server {

Status SyncFolder(const std::string& folder);

}  // namespace capstan::server
