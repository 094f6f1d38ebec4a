#include "worker/collective/piece_exchange.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace capstan::collective {
namespace {

constexpr std::size_t kReportEvery = 2 * PieceExchange::kPieceBytes;  // received bytes
// A rank begins a few receives before this one sends. Far more than that is no rank of this build.
constexpr std::size_t kGrantsMax = 4096;

template <class Messages, class Key>
auto Find(Messages& messages, const Key& key, bool granted) {
  return std::find_if(messages.begin(), messages.end(), [&](const MeshMessage* message) {
    return message->tag == key.tag && message->size == key.size && message->granted == granted;
  });
}

Outgoing ReportOf(const MeshMessage& message) {
  return {message.peer, true, MeshGrant{message.tag, message.size, message.received}};
}

}  // namespace

void PieceExchange::Begin(MeshMessage* message, Outgoings* out) {
  Peer& peer = Of(message->peer);
  message->sent = message->received = message->released = 0;
  message->granted = message->done = false;
  if (message->from == nullptr) {
    peer.receives.push_back(message);
    out->push_back(ReportOf(*message));
    return;
  }
  peer.sends.push_back(message);
  const auto grant = std::find_if(peer.grants.begin(), peer.grants.end(), [&](const MeshGrant& waiting) {
    return waiting.tag == message->tag && waiting.size == message->size;
  });
  if (grant == peer.grants.end()) return;
  peer.grants.erase(grant);
  message->granted = true;
  SendPieces(message->peer, out);
}

// Sends as much of the granted messages as may be in flight.
void PieceExchange::SendPieces(int to, Outgoings* out) {
  Peer& peer = Of(to);
  for (MeshMessage* message : peer.sends) {
    while (message->granted && message->sent < message->size) {
      const std::size_t bytes = std::min(kPieceBytes, message->size - message->sent);
      if (peer.unanswered + bytes > kUnansweredBytesMax) return;
      out->push_back({to, false, MeshPiece{message->tag, message->size, message->sent},
                      std::span(message->from + message->sent, bytes), message});
      message->sent += bytes;
      peer.unanswered += bytes;
    }
  }
}

Status PieceExchange::On(int from, const MeshPiece& piece, std::span<const std::byte> payload, Outgoings* out) {
  std::vector<MeshMessage*>& receives = Of(from).receives;
  const auto found = Find(receives, piece, false);
  if (found == receives.end()) return Corrupt("it sent a part of a message that nobody waits for");
  MeshMessage& message = **found;
  if (piece.offset > message.received && piece.offset < message.size) {
    return Corrupt("a part of a message was lost, with a connection that has been made again");
  }
  if (piece.offset != message.received || payload.empty() || payload.size() > message.size - message.received) {
    return Corrupt("it sent " + std::to_string(payload.size()) + " bytes at " + std::to_string(piece.offset) +
                   " of a message of " + std::to_string(message.size) + " bytes, of which " +
                   std::to_string(message.received) + " have come");
  }
  std::memcpy(message.to + message.received, payload.data(), payload.size());
  const std::size_t before = message.received;
  message.received += payload.size();
  message.done = message.received == message.size;
  if (message.done || before / kReportEvery != message.received / kReportEvery) out->push_back(ReportOf(message));
  if (message.done) receives.erase(found);
  return {};
}

Status PieceExchange::On(int from, const MeshGrant& grant, Outgoings* out) {
  Peer& peer = Of(from);
  const auto found = Find(peer.sends, grant, grant.received > 0);
  if (grant.received == 0 && found == peer.sends.end()) {
    if (peer.grants.size() >= kGrantsMax) return Corrupt("it waits for too many messages at once");
    peer.grants.push_back(grant);
    return {};
  }
  if (grant.received == 0) {
    (*found)->granted = true;
    SendPieces(from, out);
    return {};
  }
  if (found == peer.sends.end() || grant.received <= (*found)->received || grant.received > (*found)->sent) {
    return Corrupt("it reported bytes that were not sent to it");
  }
  MeshMessage& message = **found;
  peer.unanswered -= grant.received - message.received;
  message.received = grant.received;
  EndIfDone(&peer.sends, found);
  SendPieces(from, out);
  return {};
}

void PieceExchange::Released(int to, const MeshMessage* message, std::size_t bytes) {
  std::vector<MeshMessage*>& sends = Of(to).sends;
  const auto found = std::find(sends.begin(), sends.end(), message);
  if (found == sends.end()) return;
  (*found)->released += bytes;
  EndIfDone(&sends, found);
}

void PieceExchange::EndIfDone(std::vector<MeshMessage*>* sends, std::vector<MeshMessage*>::iterator send) {
  MeshMessage& message = **send;
  message.done = message.received == message.size && message.released == message.size;
  if (message.done) sends->erase(send);
}

bool PieceExchange::IsBusyWith(int rank) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  return !peer.sends.empty() || !peer.receives.empty();
}

void PieceExchange::Clear() {
  for (Peer& peer : peers_) peer = {};
}

}  // namespace capstan::collective
