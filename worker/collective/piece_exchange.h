// PieceExchange: sends a rank's messages to other ranks in pieces, and puts the pieces that come together.
//
// Kind:   a value; a part of MeshCore. The messages and their memory belong to the callers.
// Limits: to each rank at most kUnansweredBytesMax bytes are in flight whose arrival it has not reported.
// Fails:  kCorrupt: a rank sent what no rank of this build sends.
// Why:    a message travels only when its receiver has given memory for it. So bytes are copied once, from the received
//         frame to where they belong; no queue of messages without a receiver can grow; and the order in which receives
//         begin does not matter. A send is done when the receiver has reported all of its bytes, so a rank may leave
//         when its last call has returned, and when the transport has released them. A receiver that reports too early
//         must not free memory that the transport still reads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/wire/message.h"
#include "common/wire/messages/mesh.h"
#include "worker/collective/mesh.h"

namespace capstan::collective {

// A message that this rank sends or receives.
struct MeshMessage {
  int peer = 0;
  Tag tag = 0;
  std::size_t size = 0;
  const std::byte* from = nullptr;  // null: this rank receives it
  std::byte* to = nullptr;
  std::size_t sent = 0, received = 0, released = 0;  // bytes; released: sent bytes that the transport does not read
  bool granted = false;                              // a message to send: the receiver has memory for it
  bool done = true;
};

// Something to send to a rank. Call Released when the payload is not read any more.
struct Outgoing {
  int to = 0;
  bool is_answer = false;  // it goes back over the connection that the other rank has made
  Header header;
  std::span<const std::byte> payload = {};
  MeshMessage* message = nullptr;  // of which the payload is a piece
};
using Outgoings = std::vector<Outgoing>;

class PieceExchange {
 public:
  static constexpr std::size_t kPieceBytes = 256u << 10;
  static constexpr std::size_t kUnansweredBytesMax = 4u << 20;

  explicit PieceExchange(int size) : peers_(static_cast<std::size_t>(size)) {}

  // `message` must stay where it is until it is done, or Clear was called.
  void Begin(MeshMessage* message, Outgoings* out);
  Status On(int from, const MeshPiece& piece, std::span<const std::byte> payload, Outgoings* out);
  Status On(int from, const MeshGrant& grant, Outgoings* out);
  // Nobody reads these bytes of a message to this rank any more. Changes nothing after the message was given up.
  void Released(int to, const MeshMessage* message, std::size_t bytes);
  // Whether a message to or from this rank is not done.
  bool IsBusyWith(int rank) const;
  // Gives up all messages: they will not be done, and their memory is not used any more.
  void Clear();

 private:
  struct Peer {
    std::vector<MeshMessage*> sends, receives;  // that are not done, in the order in which they began
    std::vector<MeshGrant> grants;              // for sends that have not begun
    std::size_t unanswered = 0;                 // bytes
  };

  void SendPieces(int to, Outgoings* out);
  static void EndIfDone(std::vector<MeshMessage*>* sends, std::vector<MeshMessage*>::iterator send);
  Peer& Of(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  std::vector<Peer> peers_;  // by rank
};

}  // namespace capstan::collective
