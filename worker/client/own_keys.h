// ReadOwnKeys: the keys of this process, for a client.
//
// Kind:   a function.
// Fails:  kInvalid: the file is missing, damaged or readable for others.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "common/keys/key_file.h"

namespace capstan::client {

// Returns null if `key_file` is empty.
inline Result<std::shared_ptr<const KeyPair>> ReadOwnKeys(const std::string& key_file) {
  if (key_file.empty()) return std::shared_ptr<const KeyPair>();
  CAPSTAN_ASSIGN_OR_RETURN(KeyFile file, ReadKeyFile(key_file));
  return std::make_shared<const KeyPair>(std::move(file.keys));
}

}  // namespace capstan::client
