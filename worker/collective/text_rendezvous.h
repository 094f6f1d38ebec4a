// TextRendezvous: what the members of a group tell each other over it, a text each.
//
// Kind:   owned by the group's thread; for any number of exchanges, which all members make in one order.
// Limits: kTextMax bytes of a text; what is longer is cut.
// Fails:  as the group.
#pragma once

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
