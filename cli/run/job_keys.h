// JobKeys: the key files of a job in a private folder, with the allow list that admits them.
//
// Kind:   values and functions. Two processes that change one folder wait for each other.
// Fails:  kInvalid: a folder that is not private or no folder of keys, a name that is taken or unknown, a list that
//         others may write. kBusy: another process changes the folder, or the disk is full. kUnreachable: the disk.
// Why:    keys of one run for `capstan launch`, and keys to take to other machines for `capstan keygen`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/keys/principal.h"

namespace capstan::cli {

// Returns the path of a role's key file in the folder: FOLDER/worker.key.
std::string KeyFileIn(const std::string& folder, Role role);
// Returns the path of a process's own key file, FOLDER/worker-0.key, if there is one, else that of its role.
std::string KeyFileFor(const std::string& folder, Role role, const std::string& process);

// How many servers and workers get a key of their own, server-0.key and so on; 0: all of that role have one.
struct OwnKeys {
  std::uint32_t servers = 0, workers = 0;
};
// Makes the folder, key files for all roles, and the allow list. Returns the coordinator's public key as text.
Result<std::string> MakeJobKeys(const std::string& folder, OwnKeys own = {});
// Removes the keys of a folder that MakeJobKeys has made without keys of their own, and the folder if nothing else is
// in it.
void RemoveJobKeys(const std::string& folder);

struct AddedKey {
  std::string file;                       // with the key pair
  std::vector<std::string> coordinators;  // public keys that a coordinator of the job may have; a new one is the last
};
// Makes FOLDER/NAME.key and adds the section [NAME] to the allow list of a folder that MakeJobKeys has made; for a
// server NAME is server-NUMBER, and `name` its number. A worker's or a server's key is then for that one only. Without
// a name the key is of its role.
Result<AddedKey> AddJobKey(const std::string& folder, Role role, const std::string& name);
// Removes the section from the folder's allow list, and the key's file if it is in the folder.
Status RevokeJobKey(const std::string& folder, const std::string& section);

}  // namespace capstan::cli
