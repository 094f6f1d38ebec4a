#include "tests/sim/local_worker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/hash.h"
#include "common/data/encoding.h"
#include "common/wire/messages/group.h"
#include "common/wire/messages/group_state.h"

namespace capstan::sim {

namespace {

constexpr Instant kSilence = std::chrono::seconds(10);  // then an unreachable member counts as lost

}  // namespace

using client::SlotSums;
using session::PushWay;
using session::Session;

LocalWorker::LocalWorker(Settings settings, Session* session) : settings_(std::move(settings)), session_(session) {}

bool LocalWorker::Strikes(double probability, Instant now) {
  return now < settings_.options->calm_after && settings_.random->Unit() < probability;
}

void LocalWorker::TakeGroup(const Session::LocalGroup& group, Instant now, Outbox* out) {
  if (group.epoch != group_.epoch) {
    if (meeting_ != nullptr) settings_.count("local group changed in the middle of a round");
    meeting_ = nullptr;
    formed_ = false;
  }
  group_ = group;
  if (group.members.size() < 2) return;
  formed_ = std::none_of(group.members.begin(), group.members.end(),
                         [](const GroupMember& member) { return member.address.empty(); });
  // This worker has formed the group by itself here, so the others may still need its address.
  session_->ReportMachineGroup(group.epoch, formed_ ? GroupState::kFormed : GroupState::kOffered,
                               std::to_string(settings_.node), now, out);
}

void LocalWorker::TakeStepDone(const Session::StepDone& left) {
  const LocalBoard::When when{left.generation, left.step};
  if (!last_ || *last_ < when) last_ = when;
}

PushWay LocalWorker::BeginRound(const session::RoundWork& work, float loss_scale,
                                const std::vector<SlotSums::PartialSum>& parts, Instant now) {
  meeting_ = nullptr;
  const LocalBoard::When when{work.generation, work.step};
  if (last_ && when <= *last_) return PushWay::kNow;
  last_ = when;
  if (!formed_) return PushWay::kNow;
  meeting_ = settings_.board->At(group_.epoch, when);
  if (Strikes(0.05, now)) {
    settings_.count("worker pushes by itself, its machine's group knows");
    meeting_->somebody_alone = true;
  }
  if (Strikes(0.05, now)) {
    settings_.count("worker cannot be reached by its machine's group");
    meeting_->silent.insert(group_.rank);
  } else {
    meeting_->brought[group_.rank] = parts;
  }
  work_ = work;
  loss_scale_ = loss_scale;
  until_ = now + kSilence;
  return PushWay::kDeferred;
}

bool LocalWorker::SomebodyIsAlone() const {
  for (int rank = 0; rank < static_cast<int>(group_.members.size()); ++rank) {
    const bool brings = meeting_->brought.contains(rank) || meeting_->silent.contains(rank);
    if (!brings && settings_.board->HasCome(group_.epoch, rank, when())) return true;
  }
  return false;
}

train::LocalPlan LocalWorker::Plan() const {
  if (meeting_->somebody_alone) return {};
  std::vector<train::LocalHead> heads;
  for (const auto& [rank, parts] : meeting_->brought) {
    train::LocalHead head{work_.generation, work_.step, parts.size() <= train::LocalHead::kPartsMax, {}};
    for (const SlotSums::PartialSum& part : parts) head.parts.push_back({part.node, part.samples});
    heads.push_back(std::move(head));
  }
  return train::PlanLocalSums(heads, work_.slot_count);
}

void LocalWorker::Break(const char* why, Instant now, Outbox* out) {
  settings_.count(why);
  meeting_ = nullptr;
  formed_ = false;
  session_->ReleasePushes(work_.round, now, out);
  session_->ReportMachineGroup(group_.epoch, GroupState::kBroken, why, now, out);
}

void LocalWorker::Run(Instant now, Outbox* out) {
  if (formed_ && last_) settings_.board->Say(group_.epoch, group_.rank, *last_);
  if (meeting_ == nullptr) return;
  if (SomebodyIsAlone()) {
    settings_.count("worker pushes by itself, because another one of its machine has done so");
    session_->ReleasePushes(work_.round, now, out);
    return EndRound();
  }
  if (meeting_->brought.size() < group_.members.size()) {
    if (!meeting_->silent.empty() && now >= until_) Break("local group broken for want of a member", now, out);
    return;
  }
  const train::LocalPlan plan = Plan();
  if (plan.sums.empty()) {
    session_->ReleasePushes(work_.round, now, out);
    return EndRound();
  }
  if (group_.rank == 0) {
    if (!PushSums(plan, now, out)) return Break("worker broke off pushing for its machine", now, out);
    settings_.count("worker pushed for its machine");
  } else if (Strikes(0.03, now)) {
    return Break("local group broken after the gradients were handed over", now, out);
  }
  session_->SumsMade(work_.round, now);
  EndRound();
}

// Returns whether it did not stop halfway.
bool LocalWorker::PushSums(const train::LocalPlan& plan, Instant now, Outbox* out) {
  for (auto index = static_cast<BlockIndex>(settings_.catalog->blocks().size()); index-- > 0;) {
    if (Strikes(0.01, now)) return false;
    PushBlock(plan, index, now, out);
  }
  return true;
}

void LocalWorker::PushBlock(const train::LocalPlan& plan, BlockIndex index, Instant now, Outbox* out) {
  const Block& block = settings_.catalog->blocks()[index];
  std::vector<StagedInput> inputs;
  for (const train::LocalPlan::Part& part : plan.parts) {
    const BufferRef& gradient = meeting_->brought.at(part.rank)[part.number].gradient;
    inputs.push_back({part.node, part.samples,
                      gradient ? gradient->data() + block.flat_offset * sizeof(float) : nullptr,
                      part.node.IsLeaf() ? block.EncodingIn(settings_.encoding) : Encoding::kFp32});
  }
  train::HostAddition addition;
  for (const auto& [node, samples] : plan.sums) {
    const BufferRef buffer = settings_.sums->Take();
    const StagedInput sum = train::AddUp(node, inputs, block.count, buffer.As<float>(), addition);
    Slice payload;
    if (sum.samples > 0) {
      const std::size_t size = block.count * BytesPerNumber(sum.encoding);
      if (sum.values != buffer->data()) std::memcpy(buffer->data(), sum.values, size);
      payload = {buffer, buffer->data(), size};
    }
    const std::uint64_t hash = sum.samples > 0 ? Hash64(payload.bytes()) : 0;
    session_->Push({work_.round, node, index, sum.samples, loss_scale_, hash, std::move(payload)}, now, out);
  }
}

}  // namespace capstan::sim
