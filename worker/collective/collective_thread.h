// CollectiveThread: reduces one array after the other on a thread of its own, while its owner goes on computing.
//
// Kind:   Submit and Wait belong to one thread; the group to the thread inside.
// Limits: `waiting_max` arrays wait; one more gets kBusy.
// Fails:  the first failure is that of every later array too, which is not begun any more.
// Why:    collectives block and must be called in one order on all members; a backward pass does neither.
#pragma once

#include <thread>

#include "common/mailbox.h"
#include "worker/collective/group.h"

namespace capstan::collective {

class CollectiveThread {
 public:
  using Ticket = std::uint64_t;

  CollectiveThread(std::unique_ptr<Group> group, std::size_t waiting_max);
  // Aborts what is not done, which the other members get to hear.
  ~CollectiveThread();
  CollectiveThread(const CollectiveThread&) = delete;
  CollectiveThread& operator=(const CollectiveThread&) = delete;

  // `data` is the thread's until Wait has returned for it, or for one behind it. All members submit in one order.
  Result<Ticket> SubmitAllReduce(std::span<float> data, Deadline deadline);
  // Of that array and those before it. kTimeout when `deadline` passed before it was done: it goes on.
  Status Wait(Ticket ticket, Deadline deadline);

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  void Abort() { group_->Abort(); }

 private:
  struct Job {
    std::span<float> data;
    Deadline deadline;
  };
  struct Progress {
    Ticket done = 0, well_done = 0;
    Status failure;  // of those after `well_done`
  };

  void Run();

  const std::unique_ptr<Group> group_;
  Mailbox<Job> jobs_;
  Guarded<Progress> progress_;
  Ticket submitted_ = 0;
  std::thread thread_;
};

}  // namespace capstan::collective
