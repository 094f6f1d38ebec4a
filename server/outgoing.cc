#include "server/outgoing.h"

#include <algorithm>
#include <set>

namespace capstan::server {

bool Outgoing::Waits(PeerId peer) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const Envelope& waiting) { return waiting.to == peer; });
}

std::size_t Outgoing::Send(std::vector<Envelope>* envelopes) {
  std::size_t alive = 0;
  for (Envelope& envelope : *envelopes) {
    const bool behind = Waits(envelope.to);
    const Status status = behind ? Status(Code::kBusy, "") : transport_->Send(envelope.to, envelope.message);
    if (status.ok() || status.code() == Code::kBusy) ++alive;
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
    if (transport_->Send(envelope.to, envelope.message).code() != Code::kBusy) return true;
    busy.insert(envelope.to);
    return false;
  });
  CountWaiting();
}

void Outgoing::CountWaiting() { metrics_->send_queue_messages.Set(waiting_.size()); }

}  // namespace capstan::server
