#include "worker/machine/machine_reduce_core.h"

#include <algorithm>

namespace capstan::train {

using session::PushWay;

bool MachineReduceCore::Round::IsWhole() const {
  return std::all_of(blocks_missing.begin(), blocks_missing.end(), [](std::size_t count) { return count == 0; });
}

MachineReduceCore::MachineReduceCore(const std::vector<Bucket>& buckets) {
  for (const Bucket& bucket : buckets) {
    bucket_of_.resize(std::max<std::size_t>(bucket_of_.size(), bucket.last + 1));
    for (BlockIndex block = bucket.first; block <= bucket.last; ++block) bucket_of_[block] = blocks_in_.size();
    blocks_in_.push_back(bucket.last - bucket.first + 1);
  }
}

// ---- from the session ----------------------------------------------------------------------------------------------

void MachineReduceCore::TakeGroup(const session::MachineGrouping& group, Commands* out) {
  if (state() != State::kNone && wanted_.epoch != group.epoch) out->push_back(AbortGroupCommand{});
  wanted_ = group;
  Advance(out);
}

void MachineReduceCore::TakeStepDone(const session::StepDone& left, Commands* out) {
  const auto round = std::make_shared<Round>();
  round->offer.generation = left.generation;
  round->offer.step = left.step;
  if (!newest_ || newest_->when() < round->when()) newest_ = round;
  Advance(out);
}

// ---- from the application ------------------------------------------------------------------------------------------

PushWay MachineReduceCore::BeginRound(client::MachineRound offer, Commands* out) {
  computed_.reset();
  const auto round = std::make_shared<Round>();
  round->blocks_missing = blocks_in_;
  round->offer = std::move(offer);
  // If this worker has begun or left the step before, the round computes slots that were another worker's. Its pushes
  // must not wait for the group.
  if (newest_ && round->when() <= newest_->when()) return PushWay::kNow;
  const bool is_few = round->offer.parts.size() <= MachineHead::kPartsMax;
  if (is_few && group_.is_formed && group_.epoch == wanted_.epoch) round->epoch = group_.epoch;
  if (round->epoch == 0) round->offer.parts.clear();
  newest_ = computed_ = round;
  Advance(out);
  return round->epoch == 0 ? PushWay::kNow : PushWay::kDeferred;
}

void MachineReduceCore::BlockReady(BlockIndex block, Commands* out) {
  if (!computed_) return;
  --computed_->blocks_missing[bucket_of_[block]];
  Advance(out);
}

void MachineReduceCore::GiveUpRound(Commands* out) {
  if (!computed_) return;
  computed_->is_given_up = !computed_->IsWhole();
  computed_.reset();
  Advance(out);
}

void MachineReduceCore::Stop(Commands* out) {
  stopping_ = true;
  if (state() != State::kNone) out->push_back(AbortGroupCommand{});
  Advance(out);
}

bool MachineReduceCore::may_end_round() const {
  return !computed_ || computed_->is_done || computed_->epoch == 0 || wanted_.rank != 0 ||
         wanted_.epoch != computed_->epoch;
}

// ---- the group -----------------------------------------------------------------------------------------------------

void MachineReduceCore::Ask(MachineCommand command, Commands* out) {
  CAPSTAN_CHECK(!group_.is_asked);
  group_.is_asked = true;
  out->push_back(std::move(command));
}

void MachineReduceCore::Answered() {
  CAPSTAN_CHECK(group_.is_asked);
  group_.is_asked = false;
}

void MachineReduceCore::Advance(Commands* out) {
  if (group_.is_asked) return;
  if (state() == State::kNone && !stopping_ && wanted_.epoch != tried_) return BeginGroup(out);
  if (state() == State::kAdding) return AdvanceStep(out);
  if (state() != State::kIdle) return;
  if (is_over()) return EndGroup({}, out);
  if (newest_ != group_.served) Meet(out);
}

void MachineReduceCore::BeginGroup(Commands* out) {
  tried_ = wanted_.epoch;
  if (wanted_.members.size() < 2) return;
  group_ = {};
  group_.state = State::kForming;
  group_.epoch = wanted_.epoch;
  group_.rank = wanted_.rank;
  Ask(FormGroupCommand{wanted_}, out);
}

void MachineReduceCore::Offered(std::string address, Commands* out) {
  group_.address = std::move(address);
  out->push_back(ReportGroupCommand{group_.epoch, GroupState::kOffered, group_.address});
}

Result<std::vector<std::string>> MachineReduceCore::Addresses() const {
  if (is_over()) return Status(Code::kStale, "the group is over");
  std::vector<std::string> all;
  for (const GroupMember& member : wanted_.members) {
    if (member.address.empty()) return std::vector<std::string>();
    all.push_back(member.address);
  }
  return all;
}

void MachineReduceCore::Formed(std::size_t ahead_max, Commands* out) {
  Answered();
  if (is_over()) return EndGroup({}, out);
  group_.state = State::kIdle;
  group_.is_formed = true;
  group_.ahead_max = ahead_max;
  // The report repeats the address, because other members may still need it: the coordinator's messages may be lost.
  out->push_back(ReportGroupCommand{group_.epoch, GroupState::kFormed, group_.address});
  Advance(out);
}

void MachineReduceCore::Failed(const Status& why, Commands* out) {
  Answered();
  EndGroup(why, out);
}

// Releases the newest round, so that this worker pushes by itself what the group has not pushed.
void MachineReduceCore::EndGroup(const Status& why, Commands* out) {
  group_.state = State::kEnding;
  group_.is_formed = false;
  group_.why = is_over() ? Status() : why;
  out->push_back(DropGroupCommand{});
  group_.round = newest_;
  if (newest_) return Ask(ReleaseRoundCommand{newest_->offer.round}, out);
  ReportEnd(out);
}

void MachineReduceCore::ReportEnd(Commands* out) {
  const std::uint64_t epoch = group_.epoch;
  const Status why = group_.why;
  group_ = {};
  if (!why.ok()) {
    out->push_back(NoticeCommand{
        "the workers of this machine push each for itself, until they have formed another group: " + why.message()});
    // kUnsupported (the build cannot form a group) and kInvalid (too many workers for a mesh) will not change, so no
    // other group is requested.
    if (why.code() != Code::kUnsupported && why.code() != Code::kInvalid) {
      out->push_back(ReportGroupCommand{epoch, GroupState::kBroken, why.message()});
    }
  }
  Advance(out);
}

// ---- a step --------------------------------------------------------------------------------------------------------

// A round that began before the group was formed, or that was given up, does not join: its worker pushes by itself.
void MachineReduceCore::Meet(Commands* out) {
  group_.round = newest_;
  group_.state = State::kMeeting;
  const Round& round = *newest_;
  MachineHead head{round.offer.generation, round.offer.step, round.epoch == group_.epoch && !round.is_given_up, {}};
  if (head.joins) {
    for (const client::SlotSums::PartialSum& part : round.offer.parts) head.parts.push_back({part.node, part.samples});
  }
  Ask(MeetCommand{std::move(head)}, out);
}

void MachineReduceCore::Met(const std::vector<MachineHead>& heads, Commands* out) {
  Answered();
  const Round& round = *group_.round;
  const auto when = [](const MachineHead& head) { return std::pair(head.generation, head.step); };
  const bool is_behind =
      std::any_of(heads.begin(), heads.end(), [&](const auto& head) { return round.when() < when(head); });
  const bool is_ahead =
      std::any_of(heads.begin(), heads.end(), [&](const auto& head) { return when(head) < round.when(); });
  if (!is_behind && is_ahead) {  // wait: members on older steps will reach this step, and then all meet again
    group_.state = State::kIdle;
    return Advance(out);
  }
  MachinePlan plan = is_behind ? MachinePlan() : PlanMachineSums(heads, round.offer.slot_count);
  if (plan.sums.empty()) return Settle(ReleaseRoundCommand{round.offer.round}, out);
  group_.state = State::kAdding;
  group_.begun = group_.finished = group_.due = 0;
  out->push_back(BeginStepCommand{round.offer, std::move(plan), group_.rank == 0});
  AdvanceStep(out);
}

bool MachineReduceCore::HasCome(std::size_t bucket) const {
  return is_over() || group_.round->is_given_up || group_.round->blocks_missing[bucket] == 0;
}

void MachineReduceCore::AdvanceStep(Commands* out) {
  if (group_.finished < group_.due) return Ask(FinishBucketCommand{}, out);
  const bool is_last = group_.begun == blocks_in_.size();
  // If there is no next bucket, or if it is not ready yet, first finish all buckets that were begun.
  if (group_.finished < group_.begun && (is_last || !HasCome(group_.begun))) {
    group_.due = group_.begun;
    return Ask(FinishBucketCommand{}, out);
  }
  if (is_last) {
    out->push_back(EndStepCommand{});
    return Settle(KeepDeferredCommand{group_.round->offer.round}, out);
  }
  if (!HasCome(group_.begun)) return;
  if (is_over()) return EndGroup({}, out);
  if (group_.round->is_given_up) return EndGroup({Code::kStale, "its round was given up"}, out);
  Ask(BeginBucketCommand{group_.begun}, out);
}

void MachineReduceCore::BucketBegun(Commands* out) {
  Answered();
  ++group_.begun;
  group_.due = std::max(group_.due, group_.begun - std::min(group_.begun, group_.ahead_max));
  AdvanceStep(out);
}

void MachineReduceCore::BucketFinished(Commands* out) {
  Answered();
  ++group_.finished;
  AdvanceStep(out);
}

// `command` tells the session what to do with the round's deferred pushes.
void MachineReduceCore::Settle(MachineCommand command, Commands* out) {
  group_.state = State::kSettling;
  Ask(std::move(command), out);
}

void MachineReduceCore::Settled(Commands* out) {
  Answered();
  group_.round->is_done = true;
  group_.round->offer.parts.clear();  // the session has its own references
  if (state() == State::kEnding) return ReportEnd(out);
  group_.served = std::exchange(group_.round, nullptr);
  group_.state = State::kIdle;
  Advance(out);
}

}  // namespace capstan::train
