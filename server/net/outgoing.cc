#include "server/net/outgoing.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "common/wire/wire_codec.h"

namespace capstan::server {

namespace {

// Returns the bytes of the message's header on the wire; 0 if it cannot be encoded.
std::size_t HeaderBytes(const Header& header) {
  std::vector<std::byte> bytes;
  return EncodeHeader(header, &bytes).ok() ? bytes.size() : 0;
}

}  // namespace

Status Outgoing::TrySend(const Envelope& envelope) {
  Status status = transport_->Send(envelope.to, envelope.message);
  if (status.code() == Code::kInvalid && !said_unsendable_) {
    said_unsendable_ = true;
    if (on_notice_) on_notice_({Severity::kError, "a message of ours cannot be sent, ever: " + status.message()});
  }
  return status;
}

std::size_t Outgoing::Send(std::vector<Envelope>* envelopes) {
  payloads_.TakeReleased();
  std::size_t alive = 0;
  for (Envelope& envelope : *envelopes) alive += SendOrWait(std::move(envelope)) ? 1 : 0;
  envelopes->clear();
  CountWaiting();
  return alive;
}

bool Outgoing::SendOrWait(Envelope envelope) {
  Slice& payload = envelope.message.payload;
  if (!payload.empty() && payloads_.RoomFor(envelope.to) == 0) {
    ++dropped_;
    return true;
  }
  payload = payloads_.Track(envelope.to, std::move(payload));
  const Status status = queues_.contains(envelope.to) ? Status(Code::kBusy, "") : TrySend(envelope);
  if (status.code() == Code::kBusy) Wait(std::move(envelope));
  return status.ok() || status.code() == Code::kBusy;
}

void Outgoing::Wait(Envelope envelope) {
  const std::size_t bytes = HeaderBytes(envelope.message.header);
  const auto queue = queues_.try_emplace(envelope.to).first;
  queue->second.messages.push_back({std::move(envelope), bytes});
  queue->second.bytes += bytes;
  ++messages_;
  bytes_ += bytes;
  const Queue& own = queue->second;
  if (own.messages.size() > kPeerMessagesMax || (own.messages.size() > 1 && own.bytes > kPeerBytesMax)) {
    return DropNewest(queue);
  }
  if (messages_ <= kMessagesMax && bytes_ <= kBytesMax) return;
  const auto longer = [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; };
  DropNewest(std::max_element(queues_.begin(), queues_.end(), longer));
}

void Outgoing::DropNewest(std::map<PeerId, Queue>::iterator queue) {
  Queue& own = queue->second;
  own.bytes -= own.messages.back().bytes;
  bytes_ -= own.messages.back().bytes;
  --messages_;
  own.messages.pop_back();
  ++dropped_;
  if (own.messages.empty()) queues_.erase(queue);
}

void Outgoing::Retry() {
  payloads_.TakeReleased();
  for (auto queue = queues_.begin(); queue != queues_.end();) {
    Queue& own = queue->second;
    while (!own.messages.empty() && TrySend(own.messages.front().envelope).code() != Code::kBusy) {
      own.bytes -= own.messages.front().bytes;
      bytes_ -= own.messages.front().bytes;
      --messages_;
      own.messages.pop_front();
    }
    queue = own.messages.empty() ? queues_.erase(queue) : std::next(queue);
  }
  CountWaiting();
}

void Outgoing::CountWaiting() { metrics_->send_queue_messages.Set(messages_); }

}  // namespace capstan::server
