// MeshCore: the rules of a mesh over our own transport: what is sent when, which ranks are missing, when the mesh is
// over.
//
// Kind:   a core; takes messages, calls and the time, and returns what is to be sent. SecureMesh has it under a lock.
// Fails:  never; failure() says why the mesh is over.
// Why:    a loss has to be told from a rank that left after its last call, a slow rank from a silent one, and all ranks
//         name the same missing ranks. docs/explanation/design/collectives.md has the rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/collective/mesh_control.h"
#include "worker/collective/mesh_options.h"
#include "worker/collective/piece_exchange.h"

namespace capstan::collective {

class MeshCore {
 public:
  using Time = Deadline;

  explicit MeshCore(const MeshOptions& options = {});

  // ---- forming ----
  // The ranks to or from which no connection is known to work yet.
  RankSet unconnected() const;

  // ---- the group's thread ----
  std::uint64_t Enter(Deadline deadline);
  void Leave() { call_.reset(); }
  void Begin(MeshMessage* message, Time now, Outgoings* out);
  // The message for which the thread waits; null: none.
  void Await(const MeshMessage* message);
  void Abort(Outgoings* out);

  // ---- the connections ----
  void On(int from, const Message& message, Outgoings* out);
  // The transport has released the payload of a piece.
  void OnReleased(int to, const MeshMessage* message, std::size_t bytes) { exchange_.Released(to, message, bytes); }
  // The connection to this rank broke, or cannot be made.
  void OnBreak(int rank, const std::string& why, Time now, Outgoings* out);
  // Call it at wake(), or later.
  void Tick(Time now, Outgoings* out);
  Time wake() const;

  const std::optional<MeshFailure>& failure() const { return failure_; }
  RankSet missing() const { return failure_ ? failure_->missing : RankSet(); }
  // After a failure: the ranks that can be reached and may not know of it yet.
  RankSet untold() const;

 private:
  enum class Reply : std::uint8_t { kNone, kHasBegun, kHasNot };
  struct Rank {
    std::uint64_t received = 0;             // messages
    bool answered = false, probed = false;  // this rank's probe; this rank: so both connections work
    bool broken = false;
    std::string why = {};  // it is broken
    bool knows = false;    // that the mesh has failed
    bool asked = false;    // whether it has begun the call
    Reply reply = Reply::kNone;
  };
  // Finding out which ranks are missing.
  struct Search {
    int peer = 0;  // for whom this rank waits, or to whom the connection broke
    Reason reason = Reason::kAbsent;
    std::string why = {};
    bool asking = false;  // false: its connection broke, and it may still say why
    Time until = {};
  };

  static RankSet SetOf(int rank) { return RankSet().set(static_cast<std::size_t>(rank)); }
  Rank& Of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  void OnControl(int from, const Control& control, Outgoings* out);
  void Send(int to, const Control& control, bool is_answer, Outgoings* out) const;
  void Pulse(Time now, Outgoings* out);
  void Find(const Search& search, Time now, Outgoings* out);
  void FindNextBroken(Time now, Outgoings* out);
  void Ask(Time now, Outgoings* out);
  bool AwaitsReplies() const;
  void EndSearch(Outgoings* out);
  void Conclude(const MeshFailure& failure, Outgoings* out);

  MeshOptions options_;
  PieceExchange exchange_;
  std::vector<Rank> ranks_;
  std::uint64_t calls_ = 0;       // that this rank has begun
  std::optional<Deadline> call_;  // deadline of the call under way
  const MeshMessage* awaited_ = nullptr;
  std::uint64_t received_before_ = 0;  // from the rank of the awaited message, at the last pulse
  std::uint64_t unanswered_ = 0;       // pulses in a row since anything came from it
  Time next_pulse_{};
  std::optional<Search> search_;
  std::optional<MeshFailure> failure_;
};

}  // namespace capstan::collective
