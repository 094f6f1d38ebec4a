// TextRendezvous: each member of a group gives a text, and gets the texts of all members.
//
// Kind:   owned by the group's thread; any number of exchanges, which all members make in the same order.
// Limits: kTextMax bytes per text; longer ones are cut.
// Fails:  as the group's calls.
#pragma once

#include <vector>

#include "worker/collective/group.h"
#include "worker/collective/rendezvous.h"

namespace capstan::collective {

class TextRendezvous : public Rendezvous {
 public:
  static constexpr std::size_t kTextMax = 1020;

  explicit TextRendezvous(Group* group) : group_(*group) {}

  Result<std::vector<std::string>> Exchange(int rank, std::string text, Deadline deadline) override;

 private:
  Group& group_;
};

}  // namespace capstan::collective
