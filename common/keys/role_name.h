// The names of roles, as key files and allow lists write them; and of principals, for people.
//
// Kind:   pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/keys/principal.h"

namespace capstan {

// Returns "coordinator", "server", "worker", "reader" or "admin"; "anyone" or "this user" for senders without a key.
std::string_view NameOf(Role role);
// Returns the role with the name in quotes or, without one, with the first digits of the key: worker "w1", reader of
// key 0a1b2c3d.
std::string Describe(const Principal& principal);
// Returns the role of that name; nothing for other texts and for roles that have no key.
std::optional<Role> RoleOf(std::string_view name);

}  // namespace capstan
