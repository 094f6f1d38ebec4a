// GroupRendezvous: a TextRendezvous on the group's thread, used by another thread that polls `look_up` meanwhile.
//
// Kind:   owned by the thread that submits to the group.
// Limits: as TextRendezvous.
// Fails:  as the group, or with the status of `look_up`; then all later exchanges fail too.
#pragma once

#include "worker/collective/collective_thread.h"
#include "worker/collective/rendezvous.h"

namespace capstan::train {

class GroupRendezvous : public collective::Rendezvous {
 public:
  // `group` outlives this object. `look_up` is polled while waiting for the other members; not OK: give up.
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
