// TeamCall: one collective call of a team: what each member has announced, given and received.
//
// Kind:   a value; part of Teams.
// Limits: TeamWindow(ranks) pieces of each member, of kTeamPieceBytes.
// Why:    a piece stays here until all members have received it, so that none has to be given twice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/buffer.h"
#include "common/wire/messages/team.h"

namespace capstan::server {

class TeamCall {
 public:
  TeamCall(std::uint64_t number, std::uint32_t ranks) : number_(number), parts_(ranks) {}

  std::uint64_t number() const { return number_; }
  bool HasAsked(std::uint32_t rank) const { return parts_[rank].asked; }
  // The call as the member announced it.
  const std::string& WhatOf(std::uint32_t rank) const { return parts_[rank].what; }
  // Returns a member that announced another call than this, or another size for the same call; nullopt: there is none.
  std::optional<std::uint32_t> Contradicts(std::uint32_t rank, const TeamAsk& ask) const;
  // Takes an announcement, or the news of what the member has received.
  void Ask(std::uint32_t rank, const TeamAsk& ask);
  // Notes that the member has received the whole call.
  void HasAll(std::uint32_t rank) { parts_[rank].has_all = true; }
  // Takes a piece; false: it is not one that this member may give now, or has given already.
  // Its hash was compared already.
  bool Give(std::uint32_t rank, std::uint32_t piece, Slice payload, std::uint64_t hash);

  // Goes on to the pieces that all members have given, and drops those that all have received.
  void Advance();
  // The first pieces that all members have given.
  std::uint32_t complete() const { return complete_; }
  // The first pieces that all members have received.
  std::uint32_t floor() const { return floor_; }
  // The first pieces of this member that have come.
  std::uint32_t Held(std::uint32_t rank) const;
  // Whether the next piece that is not complete lacks this member's.
  bool Owes(std::uint32_t rank) const { return Held(rank) < std::min(TeamPieces(parts_[rank].bytes), complete_ + 1); }
  std::uint32_t ReceivedBy(std::uint32_t rank) const { return parts_[rank].received; }
  // Whether all members have given everything.
  bool IsComplete() const { return known_ && complete_ == pieces_; }
  // Whether all members have received everything.
  bool IsDone() const { return IsComplete() && floor_ == pieces_; }
  std::uint64_t BytesOf(std::uint32_t rank) const { return parts_[rank].bytes; }
  // Whether the member gives such a piece. Piece 0 of a member that gives no bytes is empty.
  bool HasPiece(std::uint32_t rank, std::uint32_t piece) const {
    return piece == 0 || piece < TeamPieces(parts_[rank].bytes);
  }
  struct Piece {
    Slice payload;
    std::uint64_t hash = 0;  // of the payload, which goes to every other member
  };
  // Returns a complete piece at or above floor().
  Piece PieceOf(std::uint32_t rank, std::uint32_t piece) const;

 private:
  struct Part {
    bool asked = false;
    bool has_all = false;
    std::string what;
    std::uint64_t bytes = 0;
    std::uint32_t received = 0;
    std::map<std::uint32_t, Piece> pieces;
  };

  std::uint64_t number_;
  std::vector<Part> parts_;  // by rank
  bool known_ = false;       // all members have announced their parts
  std::uint32_t pieces_ = 0, complete_ = 0, floor_ = 0;
};

}  // namespace capstan::server
