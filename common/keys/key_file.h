// KeyFile: a process's key pair on the disk, with the role that it is for.
//
// Kind:   functions.
// Fails:  kInvalid: no such file, not a key file, or a file that other users may read.
// Why:    a secret that is on no command line, in no environment and in no log can only be in a file.
//
// The file is TOML, of mode 0600 or less:
//   role = "worker"
//   public_key = "64 hexadecimal digits"
//   secret_key = "64 hexadecimal digits"
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/keys/key_pair.h"
#include "common/keys/principal.h"

namespace capstan {

struct KeyFile {
  Role role = Role::kWorker;  // a note for people: what the key may do is in the allow list
  KeyPair keys;
};

Result<KeyFile> ReadKeyFile(const std::string& path);
// Returns the keys in the file; null if `path` is empty: the process has none. From then on a process that has keys
// writes no core file (its soft RLIMIT_CORE is 0), because the file would have the secret.
Result<std::shared_ptr<const KeyPair>> ReadKeys(const std::string& path);
// Makes the file with mode 0600. Fails if there is one already: a lost key cannot be made again.
Status WriteKeyFile(const std::string& path, const KeyFile& file);

}  // namespace capstan
