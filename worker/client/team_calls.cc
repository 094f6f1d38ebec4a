#include "worker/client/team_calls.h"

#include <cstring>
#include <memory>
#include <utility>

#include "common/base/utf8.h"
#include "common/wire/messages/team.h"
#include "worker/client/reduce_values.h"

namespace capstan::client {

static_assert(Collectives::kBytesMax == kTeamCallBytesMax && Collectives::kRanksMax == kTeamRanksMax);

namespace {

constexpr std::size_t kWhatBytesMax = 256;

// Returns a copy of the bytes, which lives as long as a message refers to it.
Slice CopyOf(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  auto* const copy = new std::byte[bytes.size()];
  std::memcpy(copy, bytes.data(), bytes.size());
  return WholeBuffer(WrapForeign(
      copy, bytes.size(), [](void* context) { delete[] static_cast<std::byte*>(context); }, copy));
}

std::string BytesText(std::uint64_t bytes) {
  return bytes < (std::uint64_t{1} << 20) ? std::to_string(bytes) + " bytes" : std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

Result<TeamPlace> TeamCalls::FormTeam(std::optional<TeamPlace> place, Deadline deadline) {
  CAPSTAN_RETURN_IF_ERROR(process_.Check());
  CAPSTAN_RETURN_IF_ERROR(owner_.check());
  if (place && (place->ranks == 0 || place->rank >= place->ranks || place->ranks > kRanksMax)) {
    return Invalid("rank " + std::to_string(place->rank) + " of " + std::to_string(place->ranks) +
                   ": ranks are counted from 0 and below their number, which is at most " + std::to_string(kRanksMax));
  }
  if (!std::exchange(forming_, true)) {
    place_.reset();
    pending_.reset();
    failure_ = {};
    missing_.clear();
    owner_.command(session::FormTeamCommand{place ? place->rank + 1 : 0, place ? place->ranks : 0, ++wishes_});
  }
  while (!place_ && failure_.ok()) CAPSTAN_RETURN_IF_ERROR(Wait("a team", deadline));
  forming_ = false;
  if (!failure_.ok()) return failure_;
  return *place_;
}

std::uint32_t TeamCalls::WaitingForTeam() {
  if (!process_.IsThis()) return 0;
  (void)owner_.look().ok();
  return waiting_;
}

// Waits for one event. kTimeout names the members that are missing.
Status TeamCalls::Wait(const std::string& what, Deadline deadline) {
  if (owner_.finished()) {
    return {Code::kStale, "the job is done, and its members leave it: " + what +
                              " comes before the job's last step, or is computed by one member from all samples"};
  }
  const Status status = owner_.wait(deadline);
  if (status.code() != Code::kTimeout) return status;
  return Timeout("waited for " + (missing_.empty() ? "the coordinator's word" : missing_) + " in " + what +
                 " until the deadline");
}

Status TeamCalls::Run(const std::string& what, std::span<const std::byte> given, Take take, Deadline deadline) {
  CAPSTAN_RETURN_IF_ERROR(process_.Check());
  CAPSTAN_RETURN_IF_ERROR(owner_.check());
  if (!failure_.ok()) return failure_;
  if (!place_) return Invalid(what + ": this worker is in no team; form one first");
  if (!IsUtf8(what)) return Invalid("the words for a call are to be UTF-8");
  if (what.size() > kWhatBytesMax) return Invalid("the words for a call have at most 256 bytes");
  if (given.size() > kBytesMax) {
    return Invalid(what + " gives " + BytesText(given.size()) + ", and a member gives at most " + BytesText(kBytesMax) +
                   " in a call; make several calls, each with a part");
  }
  if (pending_ && (pending_->what != what || pending_->bytes != given.size())) {
    return Invalid(what + " cannot begin, because " + pending_->what +
                   " is still waiting after its deadline; make that call again, or form another team");
  }
  if (!pending_) {
    pending_.emplace(Pending{what, given.size(), std::move(take), false, {}});
    missing_.clear();
    owner_.command(session::CallTeamCommand{what, CopyOf(given)});
  }
  while (!pending_->done) CAPSTAN_RETURN_IF_ERROR(Wait(what, deadline));
  const Status status = pending_->status;
  pending_.reset();
  return status;
}

Status TeamCalls::AllReduce(void* values, std::uint64_t count, NumberType type, Reduction reduction,
                            Deadline deadline) {
  const std::string name = std::string("all_reduce(") + NameOf(reduction) + ")";
  if (reduction == Reduction::kMean && IsInteger(type)) {
    return Invalid(name + " of " + NameOf(type) + ": the mean of integers is no integer; reduce their sum, or float64");
  }
  if (count > kBytesMax) return Invalid(name + " of " + std::to_string(count) + " numbers: at most 64 MiB in a call");
  const std::uint64_t bytes = count * BytesOf(type);
  if (!pending_) reduced_.resize(bytes <= kBytesMax ? bytes : 0);
  const auto take = [this, type, reduction](std::uint64_t offset, session::TeamPieces& pieces) -> Status {
    for (std::size_t rank = 0; rank < pieces.bytes.size(); ++rank) {
      if (pieces.bytes[rank] != reduced_.size()) return Invalid("rank " + std::to_string(rank) + " gives another size");
    }
    if (!reduced_.empty()) ReduceValues(pieces.parts, type, reduction, reduced_.data() + offset, pieces.parts[0].size);
    return {};
  };
  CAPSTAN_RETURN_IF_ERROR(Run(name + " of " + std::to_string(count) + " " + NameOf(type),
                              {static_cast<const std::byte*>(values), bytes}, take, deadline));
  if (bytes > 0) std::memcpy(values, reduced_.data(), bytes);
  return {};
}

Status TeamCalls::AllGather(const void* given, std::uint64_t bytes, std::string_view what, Deadline deadline) {
  if (!pending_) gathered_.clear();
  const auto take = [this](std::uint64_t offset, session::TeamPieces& pieces) -> Status {
    gathered_.resize(pieces.parts.size());
    for (std::size_t rank = 0; rank < gathered_.size(); ++rank) {
      if (offset == 0) gathered_[rank].resize(pieces.bytes[rank]);
      const Slice& part = pieces.parts[rank];
      if (!part.empty()) std::memcpy(gathered_[rank].data() + offset, part.data, part.size);
    }
    return {};
  };
  return Run(what.empty() ? "all_gather" : std::string(what), {static_cast<const std::byte*>(given), bytes}, take,
             deadline);
}

Collectives::Bytes TeamCalls::Gathered(std::uint32_t rank) const {
  if (pending_ || rank >= gathered_.size()) return {};
  return {gathered_[rank].data(), gathered_[rank].size()};
}

Status TeamCalls::Broadcast(void* values, std::uint64_t bytes, std::uint32_t root, Deadline deadline) {
  if (place_ && root >= place_->ranks) {
    return Invalid("broadcast from rank " + std::to_string(root) + ": the team has ranks 0 to " +
                   std::to_string(place_->ranks - 1));
  }
  const bool gives = place_ && place_->rank == root;
  if (!pending_) reduced_.resize(bytes <= kBytesMax ? bytes : 0);
  const auto take = [this, root](std::uint64_t offset, session::TeamPieces& pieces) -> Status {
    if (pieces.bytes[root] != reduced_.size()) return Invalid("rank " + std::to_string(root) + " gives another size");
    const Slice& part = pieces.parts[root];
    if (!part.empty()) std::memcpy(reduced_.data() + offset, part.data, part.size);
    return {};
  };
  if (bytes > kBytesMax) {
    return Invalid("broadcast of " + BytesText(bytes) + ": at most " + BytesText(kBytesMax) +
                   " in a call; make several calls, each with a part");
  }
  const std::span<const std::byte> given(static_cast<const std::byte*>(values), gives ? bytes : 0);
  const std::string what = "broadcast of " + std::to_string(bytes) + " bytes from rank " + std::to_string(root);
  CAPSTAN_RETURN_IF_ERROR(Run(what, given, take, deadline));
  if (bytes > 0) std::memcpy(values, reduced_.data(), bytes);
  return {};
}

// ---- events --------------------------------------------------------------------------------------------------------

void TeamCalls::On(const session::TeamFormed& formed) {
  if (formed.wish != wishes_) return;  // of an earlier FormTeam
  place_ = TeamPlace{formed.rank, formed.ranks};
  missing_.clear();
  waiting_ = 0;
}

void TeamCalls::On(session::TeamPieces& pieces) {
  if (!pending_ || pending_->done) return;
  if (pending_->status.ok()) {
    pending_->status = pending_->take(std::uint64_t{pieces.piece} * kTeamPieceBytes, pieces);
  }
  pending_->done = pieces.is_last;
}

void TeamCalls::On(session::TeamWaits& waits) {
  missing_ = std::move(waits.missing);
  waiting_ = waits.waiting;
}

void TeamCalls::On(session::TeamFailed& failed) {
  if (failed.wish != wishes_) return;
  failure_ = failed.status;
  place_.reset();
  if (!pending_ || pending_->done) return;
  pending_->done = true;
  pending_->status = failed.status;
}

}  // namespace capstan::client
