// CollectiveThread: makes one collective after the other on a thread of its own, while its owner goes on computing.
//
// Kind:   Submit and Wait belong to one thread; the group to the thread inside.
// Limits: `waiting_max` of them wait; one more gets kBusy.
// Fails:  the first failure is that of every later one too, which is not begun any more.
// Why:    collectives block and must be called in one order on all members; a backward pass does neither.
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
  // Aborts what is not done, which the other members get to hear.
  ~CollectiveThread();
  CollectiveThread(const CollectiveThread&) = delete;
  CollectiveThread& operator=(const CollectiveThread&) = delete;

  // All members submit the same in one order. What is handed in is the thread's until Wait has returned for it, or for
  // one behind it, with anything but kBusy.
  //
  // `work` calls what it wants of the group, or of others that were split off for it, and waits for nothing else.
  Result<Ticket> Submit(std::function<Status(Group&)> work);
  Result<Ticket> SubmitAllReduce(std::span<float> data, Deadline deadline);
  // In floats whatever the group's wire is, as Reduce adds them. For a few: all of `data` passes each rank twice.
  Result<Ticket> SubmitExactAllReduce(std::span<float> data, Deadline deadline);
  // For that one and those before it. kBusy when `deadline` passed before it was done: it goes on.
  Status Wait(Ticket ticket, Deadline deadline);

  // Of payload, by what is done.
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
    Status failure;  // of those after `well_done`
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
