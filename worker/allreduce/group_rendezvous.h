// GroupRendezvous: a TextRendezvous on the group's thread, for another one that has to look up meanwhile.
//
// Kind:   owned by the thread that submits to the group.
// Limits: as TextRendezvous.
// Fails:  as the group, or with what `look_up` says; every later exchange then too.
#pragma once

#include "worker/collective/collective_thread.h"
#include "worker/collective/rendezvous.h"

namespace capstan::train {

class GroupRendezvous : public collective::Rendezvous {
 public:
  // Both outlive it. `look_up`: asked now and then while the others are waited for; not OK: that is over.
  GroupRendezvous(collective::CollectiveThread* group, std::function<Status()> look_up)
      : group_(group), look_up_(std::move(look_up)) {}

  Result<std::vector<std::string>> Exchange(int rank, std::string text, collective::Deadline deadline) override;

 private:
  Status Await(collective::CollectiveThread::Ticket ticket) const;

  collective::CollectiveThread* const group_;
  const std::function<Status()> look_up_;
  Status failure_;
};

}  // namespace capstan::train
