#include "common/keys/role_name.h"

#include <algorithm>
#include <array>

namespace capstan {
namespace {

constexpr std::array<std::string_view, kRoles> kRoleNames = {"anyone", "this user", "coordinator", "server",
                                                             "worker", "reader",    "admin"};
constexpr std::size_t kFirstWithKey = static_cast<std::size_t>(Role::kCoordinator);

constexpr std::size_t kDigitsShown = 8;  // of a key

}  // namespace

std::string_view NameOf(Role role) { return kRoleNames[static_cast<std::size_t>(role)]; }

std::string Describe(const Principal& principal) {
  std::string text(NameOf(principal.role));
  if (!principal.name.empty()) return text + " \"" + principal.name + "\"";
  return principal.key ? text + " of key " + TextOf(*principal.key).substr(0, kDigitsShown) : text;
}

std::optional<Role> RoleOf(std::string_view name) {
  const auto* const found = std::find(kRoleNames.begin() + kFirstWithKey, kRoleNames.end(), name);
  if (found == kRoleNames.end()) return std::nullopt;
  return static_cast<Role>(found - kRoleNames.begin());
}

}  // namespace capstan
