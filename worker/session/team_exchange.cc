#include "worker/session/team_exchange.h"

#include <algorithm>
#include <utility>

#include "common/base/hash.h"

namespace capstan::session {

TeamExchange::TeamExchange(std::uint64_t number, std::string what, Slice given, std::uint32_t rank, std::uint32_t ranks)
    : number_(number), what_(std::move(what)), given_(std::move(given)), rank_(rank), parts_(ranks) {
  Know(rank_, given_.size);
}

void TeamExchange::Know(std::uint32_t rank, std::uint64_t bytes) {
  Part& part = parts_[rank];
  if (part.known) return;
  part.known = true;
  part.bytes = bytes;
  ++known_;
  pieces_ = std::max(pieces_, capstan::TeamPieces(bytes));
}

bool TeamExchange::Take(const TeamPiece& piece, const Slice& payload) {
  if (piece.rank >= parts_.size() || piece.rank == rank_ || piece.bytes > kTeamCallBytesMax) return false;
  Part& part = parts_[piece.rank];
  const std::uint32_t count = capstan::TeamPieces(piece.bytes);
  if (piece.piece >= std::max(count, 1U) || (part.known && part.bytes != piece.bytes)) return false;
  const std::uint64_t rest = piece.bytes - std::uint64_t{piece.piece} * kTeamPieceBytes;
  if (payload.size != std::min<std::uint64_t>(rest, kTeamPieceBytes)) return false;
  if (Hash64(payload.bytes()) != piece.payload_hash) return false;
  Know(piece.rank, piece.bytes);
  RaiseFloor(piece.floor);
  Held(piece.piece + 1);  // it is passed on once all members have given theirs
  const bool is_new = piece.piece >= next_ && part.pieces.try_emplace(piece.piece, payload).second;
  Advance();
  return is_new;
}

void TeamExchange::Advance() {
  const auto has = [this](const Part& part) {
    return received_ >= capstan::TeamPieces(part.bytes) || part.pieces.contains(received_);
  };
  while (known_ == parts_.size() && received_ < pieces_) {
    for (std::uint32_t rank = 0; rank < parts_.size(); ++rank) {
      if (rank != rank_ && !has(parts_[rank])) return;
    }
    ++received_;
  }
}

std::optional<TeamPieces> TeamExchange::Next() {
  const bool is_held = next_ < held_ || next_ >= capstan::TeamPieces(given_.size) || parts_.size() == 1;
  Advance();
  if (next_ == received_ || !is_held) return std::nullopt;
  TeamPieces next;
  next.call = number_;
  next.piece = next_++;
  next.is_last = next_ == pieces_;
  for (std::uint32_t rank = 0; rank < parts_.size(); ++rank) {
    Part& part = parts_[rank];
    next.bytes.push_back(part.bytes);
    const auto found = part.pieces.find(next.piece);
    next.parts.push_back(rank == rank_ ? PieceOf(next.piece) : found == part.pieces.end() ? Slice() : found->second);
    if (found != part.pieces.end()) part.pieces.erase(found);
  }
  return next;
}

std::optional<std::uint32_t> TeamExchange::NextToGive() {
  const auto ranks = static_cast<std::uint32_t>(parts_.size());
  if (sent_ >= capstan::TeamPieces(given_.size) || sent_ >= floor_ + TeamWindow(ranks)) return std::nullopt;
  return sent_++;
}

Slice TeamExchange::PieceOf(std::uint32_t piece) const {
  const std::uint64_t begin = std::uint64_t{piece} * kTeamPieceBytes;
  if (begin >= given_.size) return {};
  return {given_.owner, given_.data + begin, std::min<std::size_t>(given_.size - begin, kTeamPieceBytes)};
}

}  // namespace capstan::session
