// LocalEndpoint: the endpoint of a Unix socket in a private folder (private_folder.h).
//
// Kind:   functions; they ask the file system.
// Fails:  kInvalid: a path that is too long or not absolute, or a folder that is not private.
// Why:    a socket is as safe as the folder that it lies in: who may enter the folder may connect, and who may replace
//         it can put a socket of his own there.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan {

// Returns the endpoint without links in its path, after all checks. `endpoint` begins with ipc://.
Result<std::string> CheckLocalEndpoint(const std::string& endpoint);
// Whether a process listens at the endpoint. (A socket's file stays behind when its process is killed.)
bool IsServed(const std::string& endpoint);

}  // namespace capstan
