// CollectiveThread: runs submitted collectives one after the other on its own thread, while the owner computes.
//
// Kind:   Submit and Wait belong to one thread; the group belongs to the inner thread.
// Limits: at most `waiting_max` collectives wait for the thread; one more gets kBusy.
// Fails:  after the first failure all later collectives fail with the same status and are not started.
// Why:    collectives block, and all members must call them in the same order. A backward pass must not block and has
//         no fixed timing.
#pragma once

#include <functional>
#include <thread>

#include "common/base/mailbox.h"
#include "worker/collective/group.h"

namespace capstan::collective {

class CollectiveThread {
 public:
  using Ticket = std::uint64_t;

  CollectiveThread(std::unique_ptr<Group> group, std::size_t waiting_max);
  // If a collective is not done, aborts the group, so that the other members' calls fail as well.
  ~CollectiveThread();
  CollectiveThread(const CollectiveThread&) = delete;
  CollectiveThread& operator=(const CollectiveThread&) = delete;

  // All members submit the same collectives in the same order. The thread owns the submitted arrays until Wait has
  // returned something other than kBusy for this ticket or a later one.
  //
  // `work` may call any collective of the group, and must wait for nothing else.
  Result<Ticket> Submit(std::function<Status(Group&)> work);
  Result<Ticket> SubmitAllReduce(std::span<float> data, Deadline deadline);
  // Sums in fp32 whatever the group's wire encoding is: a Reduce, then a Broadcast. For small arrays, because the whole
  // array passes each rank twice.
  Result<Ticket> SubmitExactAllReduce(std::span<float> data, Deadline deadline);
  // Waits for this ticket and all earlier ones. kBusy: `deadline` passed first; the collective continues.
  Status Wait(Ticket ticket, Deadline deadline);

  // Returns the payload bytes sent by finished collectives.
  std::uint64_t bytes_sent() {
    return progress_.With([](Progress& progress) { return progress.bytes_sent; });
  }
  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  void Abort() { group_->Abort(); }

 private:
  using Work = std::function<Status(Group&)>;
  struct Progress {
    Ticket done = 0, well_done = 0;
    Status failure;  // status of collectives after `well_done`
    std::uint64_t bytes_sent = 0;
  };

  void Run();

  const std::unique_ptr<Group> group_;
  Mailbox<Work> waiting_;
  Guarded<Progress> progress_;
  Ticket submitted_ = 0;
  std::thread thread_;
};

}  // namespace capstan::collective
