// RunKeygen: the command capstan keygen.
//
// Kind:   a function; it writes files and prints.
#pragma once

#include <string>

namespace capstan::cli {

// Makes the key files of a job and their allow list in `folder`, and prints what to do with them. Returns the exit code.
int RunKeygen(const std::string& folder);

}  // namespace capstan::cli
