// Principal: who sent a message, as far as the transport knows.
//
// Kind:   a value.
// Why:    a PeerId names a connection, and any process can have one. What a process may do follows from who it is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/keys/key_pair.h"

namespace capstan {

// kAnyone and kThisUser are senders without a key: nothing tells a worker from a server there. A sender of another role
// has shown a key that this role was given.
enum class Role : std::uint8_t { kAnyone, kThisUser, kCoordinator, kServer, kWorker, kReader, kAdmin };
inline constexpr int kRoles = 7;

// Whether senders of this role have shown a key.
constexpr bool HasKey(Role role) { return role != Role::kAnyone && role != Role::kThisUser; }

struct Principal {
  Role role = Role::kAnyone;
  std::string name;  // a server's number, a worker's or a reader's name; empty: the key is not of one process alone
  std::optional<PublicKey> key = {};  // the key that it has shown
  std::uint32_t sessions_max = 0;     // live sessions of the key's workers; 0: any number
  // Names that belong to keys of other workers; null: none. Only a worker whose key has no name has them.
  std::shared_ptr<const std::set<std::string>> reserved_names = nullptr;

  bool operator==(const Principal&) const = default;
};

}  // namespace capstan
