// ReadSecretFile: reads a small file that only its owner may read, such as a token or a private key.
//
// Kind:   function.
// Limits: kSecretBytesMax.
// Fails:  kInvalid: no such file, others than its owner may read or write it, it belongs to another user, or it is
//         empty or too long; kBusy: this process has no descriptor left. No message repeats a byte of the file.
// Why:    a secret that others on the machine can read is none. Links are followed: a folder of secrets that is mounted
//         into a container holds links.
#pragma once

#include <cstddef>
#include <string>

#include "common/base/status.h"

namespace capstan {

inline constexpr std::size_t kSecretBytesMax = std::size_t{64} << 10;

Result<std::string> ReadSecretFile(const std::string& path);

}  // namespace capstan
