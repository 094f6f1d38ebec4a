#include "worker/collective/collective_thread.h"

#include <pthread.h>

namespace capstan::collective {

CollectiveThread::CollectiveThread(std::unique_ptr<Group> group, std::size_t waiting_max)
    : group_(std::move(group)), waiting_(waiting_max), thread_([this] { Run(); }) {}

CollectiveThread::~CollectiveThread() {
  waiting_.Close();
  if (progress_.With([this](Progress& progress) { return progress.done < submitted_; })) group_->Abort();
  thread_.join();
}

Result<CollectiveThread::Ticket> CollectiveThread::Submit(std::function<Status(Group&)> work) {
  const Status failure = progress_.With([](Progress& progress) { return progress.failure; });
  CAPSTAN_RETURN_IF_ERROR(failure);
  if (!waiting_.Push(std::move(work)).ok()) {
    return Status(Code::kBusy, "collective number " + std::to_string(submitted_ + 1) +
                                   " finds as many waiting as may; wait for one of them first");
  }
  return ++submitted_;
}

Result<CollectiveThread::Ticket> CollectiveThread::SubmitAllReduce(std::span<float> data, Deadline deadline) {
  return Submit([=](Group& group) { return group.AllReduce(data, deadline); });
}

Result<CollectiveThread::Ticket> CollectiveThread::SubmitExactAllReduce(std::span<float> data, Deadline deadline) {
  return Submit([=](Group& group) {
    CAPSTAN_RETURN_IF_ERROR(group.Reduce(data, 0, deadline));
    return group.Broadcast(data, 0, deadline);
  });
}

Status CollectiveThread::Wait(Ticket ticket, Deadline deadline) {
  const bool in_time = progress_.AwaitUntil(deadline, [&](Progress& progress) { return progress.done >= ticket; });
  if (!in_time) return {Code::kBusy, "collective number " + std::to_string(ticket) + " is not done yet; wait again"};
  return progress_.With([&](Progress& progress) { return ticket <= progress.well_done ? Status() : progress.failure; });
}

void CollectiveThread::Run() {
  pthread_setname_np(pthread_self(), "collective");
  for (Status failure;;) {
    const std::optional<Work> work = waiting_.PopUntil(Deadline::max());
    if (!work) return;
    if (failure.ok()) failure = (*work)(*group_);
    progress_.Change([&](Progress& progress) {
      progress.failure = failure;
      ++progress.done;
      progress.bytes_sent = group_->bytes_sent();
      if (failure.ok()) progress.well_done = progress.done;
    });
  }
}

}  // namespace capstan::collective
