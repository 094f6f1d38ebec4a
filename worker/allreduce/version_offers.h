// VersionOffers: which members of a group have the version that their generation begins with. Each member sends this
// flag with the address that it offers.
//
// Kind:   a value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/wire/messages/group.h"

namespace capstan::train {

class VersionOffers {
 public:
  // The text that a member offers: a flag, then its address.
  static std::string TextOf(bool has_version, const std::string& address);

  // Reads the members' texts, by rank. kInvalid: one of them is empty.
  static Result<VersionOffers> Create(const std::vector<GroupMember>& members);

  const std::vector<std::string>& addresses() const { return addresses_; }  // by rank
  bool all_have_it() const;
  // The member that sends the version to the others. nullopt: no member has it.
  std::optional<int> source() const;

 private:
  std::vector<std::string> addresses_;
  std::vector<bool> has_version_;  // by rank
};

}  // namespace capstan::train
