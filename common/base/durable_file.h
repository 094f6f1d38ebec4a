// Files and folders that survive a power cut: an fsync of the folder follows every rename and every new name.
//
// Kind:   functions. Files and folders belong to this user only (modes 0600, 0700), unless a function says otherwise.
// Fails:  kBusy: the disk has no room, and the same call may succeed later; kUnreachable: any other error of the disk.
// Why:    fsync of a file makes its bytes durable; only fsync of its folder makes its name durable.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace capstan {

// Returns the Status of a call on `path` that failed with `error` (an errno): "cannot WHAT PATH: ...".
Status DiskFailure(const char* what, const std::string& path, int error);

// Returns the folder that `path` is in; "." if the path names none.
std::string FolderOf(const std::string& path);
// Returns the free bytes on the disk of `path`, or of its folder if there is no such file; 0 if unknown.
std::uint64_t FreeBytes(const std::string& path);

// Makes the names of all files in a folder durable.
Status SyncFolder(const std::string& folder);
// Makes the missing parents of `path`, durably. Others may read them, as far as the process's umask allows.
Status MakeParents(const std::string& path);
// Makes the folder and its missing parents, durably.
Status MakeFolders(const std::string& path);
Status RenameDurably(const std::string& from, const std::string& to);
// Opens a new, empty file at `path` for writing, in place of any file or link of that name; a link is not followed.
// Returns the descriptor. `mode`: as open() takes it.
Result<int> OpenNew(const std::string& path, mode_t mode = 0600);
// Replaces the file atomically: after a crash it is the whole old file or the whole new one. Writes PATH.partial first.
Status WriteFileDurably(const std::string& path, std::string_view bytes);

}  // namespace capstan
