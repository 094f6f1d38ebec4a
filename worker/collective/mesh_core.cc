#include "worker/collective/mesh_core.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace capstan::collective {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kProbeEvery{300};  // how often a rank that this one waits for is probed

static_assert(sizeof(Control) <= MeshControl::kBytesMax);

}  // namespace

MeshCore::MeshCore(const MeshOptions& options)
    : options_(options), exchange_(options.size), ranks_(static_cast<std::size_t>(options.size)) {}

RankSet MeshCore::unconnected() const {
  RankSet unconnected;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    unconnected.set(rank, !ranks_[rank].answered || !ranks_[rank].probed);
  }
  return unconnected.reset(static_cast<std::size_t>(options_.rank));
}

RankSet MeshCore::untold() const {
  RankSet untold;
  for (std::size_t rank = 0; failure_ && rank < ranks_.size(); ++rank) {
    untold.set(rank, !ranks_[rank].broken && !ranks_[rank].knows);
  }
  return untold.reset(static_cast<std::size_t>(options_.rank));
}

// ---- the group's thread --------------------------------------------------------------------------------------------

std::uint64_t MeshCore::Enter(Deadline deadline) {
  call_ = deadline;
  return ++calls_;
}

void MeshCore::Begin(MeshMessage* message, Time now, Outgoings* out) {
  message->done = false;
  if (failure_) return;
  exchange_.Begin(message, out);
  if (Of(message->peer).broken) Find({message->peer, Reason::kLost, Of(message->peer).why}, now, out);
}

void MeshCore::Await(const MeshMessage* message) {
  awaited_ = message;
  unanswered_ = 0;
  if (message != nullptr) received_before_ = Of(message->peer).received;
}

void MeshCore::Abort(Outgoings* out) { Conclude({Reason::kAborted, SetOf(options_.rank)}, out); }

// ---- the connections -----------------------------------------------------------------------------------------------

void MeshCore::On(int from, const Message& message, Outgoings* out) {
  Status status;
  if (const auto* control = message.header.As<MeshControl>(); control && control->control.size() == sizeof(Control)) {
    Control received{};
    std::memcpy(static_cast<void*>(&received), control->control.data(), sizeof received);
    OnControl(from, received, out);
  } else if (failure_) {
    return;
  } else if (const auto* piece = message.header.As<MeshPiece>()) {
    status = exchange_.On(from, *piece, message.payload.bytes(), out);
  } else if (const auto* grant = message.header.As<MeshGrant>()) {
    status = exchange_.On(from, *grant, out);
  } else {
    status = Corrupt("it sent a message that is not for a mesh; run one build of capstan everywhere");
  }
  ++Of(from).received;
  if (!status.ok()) Conclude({Reason::kLost, SetOf(from), status.message()}, out);
}

void MeshCore::OnControl(int from, const Control& control, Outgoings* out) {
  switch (control.kind) {
    case ControlKind::kAsk: {
      // If this rank is in an earlier call, it counts as present too: another rank delays it.
      const bool is_there = calls_ >= control.number || call_.has_value();
      Send(from, {ControlKind::kAnswer, is_there, {}, {}}, true, out);
      break;
    }
    case ControlKind::kAnswer:
      Of(from).reply = control.number != 0 ? Reply::kHasBegun : Reply::kHasNot;
      if (search_ && search_->asking && !AwaitsReplies()) EndSearch(out);
      break;
    case ControlKind::kFailure:
      Of(from).knows = true;
      Conclude(FailureOf(control, options_.size), out);
      break;
    case ControlKind::kProbe:
      Of(from).probed = true;
      Send(from, {ControlKind::kHere}, true, out);
      break;
    case ControlKind::kHere: Of(from).answered = true; break;
  }
}

void MeshCore::Send(int to, const Control& control, bool is_answer, Outgoings* out) const {
  MeshControl message{std::string(sizeof control, '\0')};
  std::memcpy(message.control.data(), &control, sizeof control);
  out->push_back({to, is_answer, std::move(message)});
}

void MeshCore::OnBreak(int rank, const std::string& why, Time now, Outgoings* out) {
  Of(rank).broken = true;
  Of(rank).why = why;
  if (unconnected().any()) return Conclude({Reason::kLost, SetOf(rank), why}, out);
  if (exchange_.IsBusyWith(rank)) Find({rank, Reason::kLost, why}, now, out);
}

MeshCore::Time MeshCore::wake() const {
  Time wake = next_pulse_;
  if (search_) wake = std::min(wake, search_->until);
  if (!search_ && call_ && awaited_ != nullptr) wake = std::min(wake, *call_);
  return wake;
}

void MeshCore::Tick(Time now, Outgoings* out) {
  if (failure_) return;
  if (now >= next_pulse_) {
    next_pulse_ = now + kProbeEvery;
    Pulse(now, out);
  }
  if (!search_ && call_ && awaited_ != nullptr && !awaited_->done && now >= *call_) {
    Find({awaited_->peer, Reason::kAbsent}, now, out);
  }
  if (!search_ || now < search_->until) return;
  if (search_->asking) {
    EndSearch(out);
  } else if (exchange_.IsBusyWith(search_->peer)) {
    Ask(now, out);
  } else {
    search_.reset();  // the rank has left after the last call in which this one needed it
    FindNextBroken(now, out);
  }
}

// A connection that broke during another rank's search was left for later.
void MeshCore::FindNextBroken(Time now, Outgoings* out) {
  for (int rank = 0; rank < options_.size; ++rank) {
    if (Of(rank).broken && exchange_.IsBusyWith(rank)) return Find({rank, Reason::kLost, Of(rank).why}, now, out);
  }
}

// Probes the ranks that have never answered, and the rank for which this one waits.
void MeshCore::Pulse(Time now, Outgoings* out) {
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank != options_.rank && !Of(rank).answered) Send(rank, {ControlKind::kProbe}, false, out);
  }
  if (awaited_ == nullptr || awaited_->done) return;
  // Counts probes instead of time, because this process itself may have been stopped meanwhile.
  const std::uint64_t received = Of(awaited_->peer).received;
  unanswered_ = received == std::exchange(received_before_, received) ? unanswered_ + 1 : 0;
  const auto silence = static_cast<std::uint64_t>(options_.silence / kProbeEvery) + 1;
  if (unanswered_ > silence) return Find({awaited_->peer, Reason::kSilent}, now, out);
  Send(awaited_->peer, {ControlKind::kProbe}, false, out);
}

// ---- the failure ---------------------------------------------------------------------------------------------------

void MeshCore::Find(const Search& search, Time now, Outgoings* out) {
  if (search_ || failure_) return;
  search_ = search;
  // A rank that ends after a failure sends the failure first.
  search_->until = now + options_.failure_send;
  if (search.reason != Reason::kLost) Ask(now, out);
}

// Asks the other ranks whether they have begun the call.
void MeshCore::Ask(Time now, Outgoings* out) {
  search_->asking = true;
  search_->until = now + options_.answer;
  for (int rank = 0; rank < options_.size; ++rank) {
    const bool is_lost = Of(rank).broken || (rank == search_->peer && search_->reason != Reason::kAbsent);
    if (rank == options_.rank || is_lost) continue;
    Of(rank).asked = true;
    Send(rank, {ControlKind::kAsk, calls_, {}, {}}, false, out);
  }
  if (!AwaitsReplies()) EndSearch(out);
}

bool MeshCore::AwaitsReplies() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.asked && rank.reply == Reply::kNone; });
}

void MeshCore::EndSearch(Outgoings* out) {
  const Search search = *std::exchange(search_, std::nullopt);
  RankSet lost, silent, late;
  if (search.reason != Reason::kAbsent) lost = SetOf(search.peer);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const bool is_needed = exchange_.IsBusyWith(static_cast<int>(rank));
    if (ranks_[rank].broken && is_needed) lost.set(rank);
    silent.set(rank, ranks_[rank].asked && ranks_[rank].reply == Reply::kNone);
    // One that left after its last call has not begun this one.
    late.set(rank, ranks_[rank].reply == Reply::kHasNot || (ranks_[rank].broken && !is_needed));
  }
  if (lost.any()) {
    const Reason reason = search.reason == Reason::kSilent ? search.reason : Reason::kLost;
    return Conclude({reason, lost | silent, search.why}, out);
  }
  if ((silent | late).none()) return Conclude({Reason::kStalled, SetOf(search.peer)}, out);
  Conclude({Reason::kAbsent, silent | late}, out);
}

// Ends the mesh, and tells the other ranks why.
void MeshCore::Conclude(const MeshFailure& failure, Outgoings* out) {
  if (failure_) return;
  failure_ = failure;
  search_.reset();
  exchange_.Clear();
  out->clear();  // pieces of messages that nobody waits for any more
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank != options_.rank && !Of(rank).broken) Send(rank, ControlOf(failure), false, out);
  }
}

}  // namespace capstan::collective
