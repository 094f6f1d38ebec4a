#include "cli/launch/member_list.h"

#include <algorithm>

namespace capstan::cli {

bool MemberList::AllWereReady() const {
  return members_.size() > 1 && std::all_of(members_.begin(), members_.end(),
                                            [](const Member& member) { return member.is_own() || member.ready(); });
}

bool MemberList::AllEnded() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.ended(); });
}

std::string MemberList::Remaining(std::optional<ProgramKind> kind) const {
  std::string names;
  for (const Member& member : members_) {
    if (member.process().ended() || (kind && member.kind() != *kind)) continue;
    names += (names.empty() ? "" : ", ") + member.name() + " (process " + std::to_string(member.process().pid()) + ")";
  }
  return names;
}

}  // namespace capstan::cli
