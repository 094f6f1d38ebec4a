// JobKeys: the key files of a job, one for each role, in a private folder, with the allow list that admits them.
//
// Kind:   values and functions.
// Fails:  kInvalid: a folder that is not private, or has a key file already. kUnreachable: the disk.
// Why:    keys of one run for `capstan launch`, and keys to take to other machines for `capstan keygen`.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/keys/principal.h"

namespace capstan::cli {

// Returns the path of a role's key file in the folder: FOLDER/worker.key.
std::string KeyFileIn(const std::string& folder, Role role);
// Makes the folder, a key file for each role, and the allow list. Returns the coordinator's public key as text.
Result<std::string> MakeJobKeys(const std::string& folder);
// Removes what MakeJobKeys has made, and the folder if nothing else is in it.
void RemoveJobKeys(const std::string& folder);

}  // namespace capstan::cli
