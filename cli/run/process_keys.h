// ProcessKeys: the keys of this process, and who may connect to it, from the files that --key-file and CAPSTAN_KEY_FILE
// name.
//
// Kind:   values and functions.
// Fails:  kInvalid: a file that is missing, damaged, or readable for others.
// Why:    a secret is never on a command line or in the environment: those have its file's name.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/keys/key_pair.h"
#include "common/keys/listed_admission.h"

namespace capstan::cli {

struct ProcessKeys {
  std::shared_ptr<const KeyPair> pair;   // null: this process has no keys
  std::shared_ptr<Admission> admission;  // null: nobody connects to this process
};

inline constexpr char kAllowListName[] = "allow.toml";

// Returns `flag`, or if that is empty the value of CAPSTAN_KEY_FILE; empty: neither is there.
std::string KeyFileOf(const std::string& flag);
// From now on no other process of this user can read this one's memory, and neither can a program that the system gives
// core files to. (A limit of 0 bytes, which ReadKeys sets, stops only files.)
void KeepOutOfCoreFiles();
// Reads the key file, unless `key_file` is empty. Keeps the secret out of core files.
Result<std::shared_ptr<const KeyPair>> LoadKeys(const std::string& key_file);
// Reads the key file, and the allow list next to it. `on_notice` is told when the list was read again.
Result<ProcessKeys> LoadKeysToListen(const std::string& key_file, ListedAdmission::OnNotice on_notice);

}  // namespace capstan::cli
