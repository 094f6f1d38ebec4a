// PrivateFolder: a folder that only processes of this user can enter, and that no other user can replace.
//
// Kind:   functions; they ask the file system.
// Fails:  kInvalid: there is no such folder, or another user may enter it or put another one in its place.
// Why:    a socket in such a folder was made by this user, and is found by this user's processes only. (The superuser
//         can do anything anyway.)
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan {

// Returns the folder's path without links, if the folder is private: it is this user's, its mode is 0700 or less, and
// each folder above it is one that only this user or the system's owner can change. (In one with the sticky bit, as
// /tmp, others may make names but cannot take away ours.)
Result<std::string> FindPrivateFolder(const std::string& folder);
// Makes a private folder, or takes the one that is there. Its parent must exist.
Result<std::string> MakePrivateFolder(const std::string& folder);

}  // namespace capstan
