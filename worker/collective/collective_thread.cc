#include "worker/collective/collective_thread.h"

#include <pthread.h>

namespace capstan::collective {

CollectiveThread::CollectiveThread(std::unique_ptr<Group> group, std::size_t waiting_max)
    : group_(std::move(group)), jobs_(waiting_max), thread_([this] { Run(); }) {}

CollectiveThread::~CollectiveThread() {
  jobs_.Close();
  if (progress_.With([this](Progress& progress) { return progress.done < submitted_; })) group_->Abort();
  thread_.join();
}

Result<CollectiveThread::Ticket> CollectiveThread::SubmitAllReduce(std::span<float> data, Deadline deadline) {
  const Status failure = progress_.With([](Progress& progress) { return progress.failure; });
  CAPSTAN_RETURN_IF_ERROR(failure);
  if (!jobs_.Push({data, deadline}).ok()) {
    return Status(Code::kBusy, "array number " + std::to_string(submitted_ + 1) +
                                   " finds as many waiting to be reduced as may; wait for one of them first");
  }
  return ++submitted_;
}

Status CollectiveThread::Wait(Ticket ticket, Deadline deadline) {
  const bool in_time = progress_.AwaitUntil(deadline, [&](Progress& progress) { return progress.done >= ticket; });
  if (!in_time) return Timeout("array number " + std::to_string(ticket) + " is still being reduced; wait again");
  return progress_.With([&](Progress& progress) { return ticket <= progress.well_done ? Status() : progress.failure; });
}

void CollectiveThread::Run() {
  pthread_setname_np(pthread_self(), "collective");
  for (Status failure;;) {
    const std::optional<Job> job = jobs_.PopUntil(Deadline::max());
    if (!job) return;
    if (failure.ok()) failure = group_->AllReduce(job->data, job->deadline);
    progress_.Change([&](Progress& progress) {
      progress.failure = failure;
      ++progress.done;
      if (failure.ok()) progress.well_done = progress.done;
    });
  }
}

}  // namespace capstan::collective
