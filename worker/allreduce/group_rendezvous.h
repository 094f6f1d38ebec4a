// GroupRendezvous: a TextRendezvous that runs on the group's thread, while the calling thread waits and polls
// `look_up`.
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
  // `group` must outlive this object. `look_up` is polled while waiting for the other members; its error ends the wait.
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
