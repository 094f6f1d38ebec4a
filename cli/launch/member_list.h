// MemberList: the processes of the job.
//
// Kind:   owned by the launcher's thread. References to members stay valid; iterators do not survive Add.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "cli/launch/member.h"

namespace capstan::cli {

class MemberList {
 public:
  // Adds a member that has been started. The first member is the coordinator.
  void Add(Member member) { members_.push_back(std::move(member)); }
  bool empty() const { return members_.empty(); }
  Member& coordinator() { return members_.front(); }
  const Member& coordinator() const { return members_.front(); }
  auto begin() { return members_.begin(); }
  auto end() { return members_.end(); }
  auto begin() const { return members_.begin(); }
  auto end() const { return members_.end(); }

  // Whether there are members besides the coordinator, and each has been ready; the user's programs do not count.
  bool AllWereReady() const;
  bool AllEnded() const;
  // Returns the names and process ids of the processes that have not ended: of all kinds, or only of `kind`.
  std::string Remaining(std::optional<ProgramKind> kind = {}) const;

 private:
  std::deque<Member> members_;
};

}  // namespace capstan::cli
