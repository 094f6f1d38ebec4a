// Files and folders that outlive a power cut: every rename and every new name is followed by an fsync of its folder.
//
// Kind:   functions.
// Fails:  kBusy: the disk has no room, and the same call may succeed later; kUnreachable: anything else that a disk says.
// Why:    a file's fsync keeps its bytes, and only its folder's fsync keeps its name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace capstan {

// What a call on `path` that failed with `error` (an errno) means: "cannot WHAT PATH: ...".
Status DiskFailure(const char* what, const std::string& path, int error);

// The folder that `path` is in.
std::string FolderOf(const std::string& path);
// Bytes that are free on the disk that `path`, or its folder, is on; 0 when the disk does not say.
std::uint64_t FreeBytes(const std::string& path);

// Makes durable which names a folder has.
Status SyncFolder(const std::string& folder);
// Makes the folder and those above it that are missing.
Status MakeFolders(const std::string& path);
Status RenameDurably(const std::string& from, const std::string& to);
// Replaces the file in one piece: it is the old one or the new one, whole. PATH.partial is written on the way.
Status WriteFileDurably(const std::string& path, std::string_view bytes);

}  // namespace capstan
