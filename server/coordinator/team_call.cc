#include "server/coordinator/team_call.h"

#include <algorithm>
#include <utility>

#include "common/base/hash.h"

namespace capstan::server {

std::optional<std::uint32_t> TeamCall::Contradicts(std::uint32_t rank, const TeamAsk& ask) const {
  if (parts_[rank].asked && (parts_[rank].what != ask.what || parts_[rank].bytes != ask.bytes)) return rank;
  for (std::uint32_t other = 0; other < parts_.size(); ++other) {
    if (parts_[other].asked && parts_[other].what != ask.what) return other;
  }
  return std::nullopt;
}

void TeamCall::Ask(std::uint32_t rank, const TeamAsk& ask) {
  Part& part = parts_[rank];
  part.asked = true;
  part.what = ask.what;
  part.bytes = ask.bytes;
  part.received = std::max(part.received, ask.received);
}

bool TeamCall::Give(std::uint32_t rank, std::uint32_t piece, Slice payload, std::uint64_t hash) {
  Part& part = parts_[rank];
  if (!part.asked || piece >= TeamPieces(part.bytes)) return false;
  if (piece < floor_ || piece >= floor_ + TeamWindow(static_cast<std::uint32_t>(parts_.size()))) return false;
  const std::uint64_t rest = part.bytes - std::uint64_t{piece} * kTeamPieceBytes;
  if (payload.size != std::min<std::uint64_t>(rest, kTeamPieceBytes)) return false;
  return part.pieces.try_emplace(piece, Piece{std::move(payload), hash}).second;
}

std::uint32_t TeamCall::Held(std::uint32_t rank) const {
  const Part& part = parts_[rank];
  std::uint32_t held = floor_;
  while (part.pieces.contains(held)) ++held;
  return std::min(held, TeamPieces(part.bytes));
}

void TeamCall::Advance() {
  if (!known_) {
    known_ = std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.asked; });
    if (!known_) return;
    pieces_ = 1;
    for (const Part& part : parts_) pieces_ = std::max(pieces_, TeamPieces(part.bytes));
  }
  const auto given = [this](const Part& part) {
    return complete_ >= TeamPieces(part.bytes) || part.pieces.contains(complete_);
  };
  while (complete_ < pieces_ && std::all_of(parts_.begin(), parts_.end(), given)) ++complete_;
  std::uint32_t floor = complete_;
  for (const Part& part : parts_) floor = std::min(floor, part.has_all ? pieces_ : part.received);
  for (; floor_ < floor; ++floor_) {
    for (Part& part : parts_) part.pieces.erase(floor_);
  }
}

TeamCall::Piece TeamCall::PieceOf(std::uint32_t rank, std::uint32_t piece) const {
  const auto found = parts_[rank].pieces.find(piece);
  return found == parts_[rank].pieces.end() ? Piece{{}, Hash64({})} : found->second;
}

}  // namespace capstan::server
