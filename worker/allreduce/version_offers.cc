#include "worker/allreduce/version_offers.h"

#include <algorithm>

#include "common/wire/messages/group_state.h"

namespace capstan::train {

std::string VersionOffers::TextOf(bool has_version, const std::string& address) {
  return (has_version ? kOffersVersion : kOffersNoVersion) + address;
}

Result<VersionOffers> VersionOffers::Create(const std::vector<GroupMember>& members) {
  VersionOffers offers;
  for (const GroupMember& member : members) {
    if (member.address.empty()) return Invalid("a worker offered no address");
    offers.has_version_.push_back(member.address.front() == kOffersVersion);
    offers.addresses_.push_back(member.address.substr(1));
  }
  return offers;
}

bool VersionOffers::all_have_it() const {
  return std::find(has_version_.begin(), has_version_.end(), false) == has_version_.end();
}

std::optional<int> VersionOffers::source() const {
  const auto first = std::find(has_version_.begin(), has_version_.end(), true);
  if (first == has_version_.end()) return std::nullopt;
  return static_cast<int>(first - has_version_.begin());
}

}  // namespace capstan::train
