#include "server/net/payloads_in_flight.h"

#include <algorithm>
#include <utility>

namespace capstan::server {

// A payload in flight.
struct PayloadsInFlight::Ticket {
  PeerId peer;
  const Buffer* buffer;  // only its address: the buffer may be gone
  std::uint64_t bytes;
  BufferRef owner;
  std::shared_ptr<Released> home;
  Ticket* next = nullptr;
};

// The tickets of payloads that have left: a list to which any thread adds, and which the owner takes.
struct PayloadsInFlight::Released {
  ~Released() { Delete(TakeAll()); }

  void Push(Ticket* ticket) {
    Ticket* head = first.load(std::memory_order_relaxed);
    do {
      ticket->next = head;
    } while (!first.compare_exchange_weak(head, ticket, std::memory_order_release, std::memory_order_relaxed));
  }
  Ticket* TakeAll() { return first.exchange(nullptr, std::memory_order_acquire); }
  static void Delete(Ticket* list) {
    while (list != nullptr) delete std::exchange(list, list->next);
  }

  std::atomic<Ticket*> first{nullptr};
};

PayloadsInFlight::PayloadsInFlight() : released_(std::make_shared<Released>()) {}
PayloadsInFlight::~PayloadsInFlight() = default;

std::uint64_t PayloadsInFlight::bytes_to(PeerId peer) const {
  const auto found = peers_.find(peer.value);
  return found == peers_.end() ? 0 : found->second;
}

std::uint64_t PayloadsInFlight::RoomFor(PeerId peer) const {
  const std::uint64_t in_flight = bytes_to(peer);
  if (bytes_ >= bytes_max_) return in_flight == 0 ? 1 : 0;
  return kPeerBytesMax - std::min(kPeerBytesMax, in_flight);
}

Slice PayloadsInFlight::Track(PeerId peer, Slice payload) {
  if (payload.size < kTrackedFrom || !payload.owner) return payload;
  peers_[peer.value] += payload.size;
  Held& held = buffers_[payload.owner.get()];
  if (held.tickets++ == 0) bytes_ += held.bytes = payload.owner->size();
  auto* const start = const_cast<std::byte*>(payload.data);
  auto* const ticket = new Ticket{peer, payload.owner.get(), payload.size, std::move(payload.owner), released_};
  return {WrapForeign(start, payload.size, &Release, ticket), start, payload.size};
}

// Frees the payload at once. Its bytes stop counting when the owner takes the ticket.
void PayloadsInFlight::Release(void* context) {
  auto* const ticket = static_cast<Ticket*>(context);
  ticket->owner = BufferRef();
  const std::shared_ptr<Released> home = std::move(ticket->home);  // may be the last reference
  home->Push(ticket);
}

void PayloadsInFlight::TakeReleased() {
  Ticket* const list = released_->TakeAll();
  for (const Ticket* ticket = list; ticket != nullptr; ticket = ticket->next) {
    const auto peer = peers_.find(ticket->peer.value);
    peer->second -= ticket->bytes;
    if (peer->second == 0) peers_.erase(peer);
    const auto buffer = buffers_.find(ticket->buffer);
    if (--buffer->second.tickets > 0) continue;
    bytes_ -= buffer->second.bytes;
    buffers_.erase(buffer);
  }
  Released::Delete(list);
}

}  // namespace capstan::server
