#include "server/net/outgoing.h"

#include <algorithm>
#include <set>

namespace capstan::server {

bool Outgoing::Waits(PeerId peer) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const Envelope& waiting) { return waiting.to == peer; });
}

Status Outgoing::TrySend(const Envelope& envelope) {
  Status status = transport_->Send(envelope.to, envelope.message);
  if (status.code() == Code::kInvalid && !said_unsendable_) {
    said_unsendable_ = true;
    if (on_notice_) on_notice_({Severity::kError, "a message of ours cannot be sent, ever: " + status.message()});
  }
  return status;
}

std::size_t Outgoing::Send(std::vector<Envelope>* envelopes, std::vector<PeerId>* gone) {
  std::size_t alive = 0;
  for (Envelope& envelope : *envelopes) {
    const bool behind = Waits(envelope.to);
    const Status status = behind ? Status(Code::kBusy, "") : TrySend(envelope);
    if (status.ok() || status.code() == Code::kBusy) ++alive;
    if (status.code() == Code::kUnreachable && gone != nullptr) gone->push_back(envelope.to);
    if (status.code() == Code::kBusy && waiting_.size() < kWaitingMax) waiting_.push_back(std::move(envelope));
  }
  envelopes->clear();
  CountWaiting();
  return alive;
}

void Outgoing::Retry() {
  std::set<PeerId> busy;
  std::erase_if(waiting_, [&](const Envelope& envelope) {
    if (busy.contains(envelope.to)) return false;
    if (TrySend(envelope).code() != Code::kBusy) return true;
    busy.insert(envelope.to);
    return false;
  });
  CountWaiting();
}

void Outgoing::CountWaiting() { metrics_->send_queue_messages.Set(waiting_.size()); }

}  // namespace capstan::server
