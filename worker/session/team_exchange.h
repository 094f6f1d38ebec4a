// TeamExchange: one collective call of this worker's team: what it gives, and what it has received from the others.
//
// Kind:   a value; part of TeamMember.
// Limits: kTeamCallBytesMax bytes of each member.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/buffer.h"
#include "common/wire/messages/team.h"
#include "worker/session/team_events.h"

namespace capstan::session {

class TeamExchange {
 public:
  // `rank`: this worker's, from 0.
  TeamExchange(std::uint64_t number, std::string what, Slice given, std::uint32_t rank, std::uint32_t ranks);

  std::uint64_t number() const { return number_; }
  const std::string& what() const { return what_; }
  const Slice& given() const { return given_; }
  // The first pieces that this worker has from all other members.
  std::uint32_t received() const { return received_; }
  // Whether the coordinator has all that this worker gives, and Next() has returned everything.
  bool is_complete() const { return known_ == parts_.size() && next_ == pieces_; }
  bool has_received_all() const { return known_ == parts_.size() && received_ == pieces_; }
  // Takes a piece of another member; false: the message says what cannot be, or this worker has the piece.
  bool Take(const TeamPiece& piece, const Slice& payload);
  // Notes that the coordinator has had the first so many pieces of this worker.
  void Held(std::uint32_t pieces) { held_ = pieces > held_ ? pieces : held_; }
  // Returns the next piece, once it has come from all other members, and from this one to the coordinator.
  std::optional<TeamPieces> Next();
  // Whether a piece below `complete` is missing, which the coordinator has sent.
  bool Lacks(std::uint32_t complete) const { return received_ < complete; }

  // ---- the pieces of this worker
  // Returns the next piece to give, if it is below floor + window; nullopt: there is none.
  std::optional<std::uint32_t> NextToGive();
  Slice PieceOf(std::uint32_t piece) const;
  void RaiseFloor(std::uint32_t floor) { floor_ = floor > floor_ ? floor : floor_; }
  // The coordinator has these first pieces; later ones were lost. `floor`: as TeamState has it.
  void GiveFrom(std::uint32_t held, std::uint32_t floor) {
    sent_ = held;
    floor_ = floor;
  }
  std::uint32_t sent() const { return sent_; }

 private:
  struct Part {
    bool known = false;
    std::uint64_t bytes = 0;
    std::map<std::uint32_t, Slice> pieces;  // that have come, from next_ on
  };
  void Know(std::uint32_t rank, std::uint64_t bytes);
  void Advance();

  std::uint64_t number_;
  std::string what_;
  Slice given_;
  std::uint32_t rank_;
  std::vector<Part> parts_;  // by rank
  std::size_t known_ = 0;    // parts whose size is known
  std::uint32_t pieces_ = 1, received_ = 0, next_ = 0;
  std::uint32_t sent_ = 0, held_ = 0, floor_ = 0;  // of this worker's pieces
};

}  // namespace capstan::session
