#include "worker/allreduce/group_rendezvous.h"

#include "worker/collective/text_rendezvous.h"

namespace capstan::train {

namespace {

constexpr auto kLookUp = std::chrono::milliseconds(20);

}  // namespace

Result<std::vector<std::string>> GroupRendezvous::Exchange(int rank, std::string text, collective::Deadline deadline) {
  CAPSTAN_RETURN_IF_ERROR(failure_);
  // Shared with the submitted work, which may still write to it after this call has given up.
  const auto told = std::make_shared<std::vector<std::string>>();
  const auto exchange = [told, rank, deadline, text = std::move(text)](collective::Group& members) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(*told, collective::TextRendezvous(&members).Exchange(rank, text, deadline));
    return {};
  };
  const auto ticket = group_->Submit(exchange);
  failure_ = ticket.ok() ? Await(*ticket) : ticket.status();
  CAPSTAN_RETURN_IF_ERROR(failure_);
  return *told;
}

Status GroupRendezvous::Await(collective::CollectiveThread::Ticket ticket) const {
  for (;;) {
    const Status status = group_->Wait(ticket, std::chrono::steady_clock::now() + kLookUp);
    if (status.code() != Code::kBusy) return status;
    CAPSTAN_RETURN_IF_ERROR(look_up_());
  }
}

}  // namespace capstan::train
