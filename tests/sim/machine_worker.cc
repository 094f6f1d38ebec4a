#include "tests/sim/machine_worker.h"

#include <algorithm>
#include <utility>

#include "common/data/encoding.h"
#include "common/wire/messages/group.h"
#include "common/wire/messages/group_state.h"

namespace capstan::sim {

namespace {

constexpr Instant kSilence = std::chrono::seconds(10);  // then a silent member counts as lost
constexpr Instant kJoinMax = std::chrono::seconds(5);
constexpr std::uint64_t kBucketBytes = 48;  // so that a job has several buckets

}  // namespace

using client::SlotSums;
using session::PushWay;
using session::Session;

MachineWorker::MachineWorker(Settings settings, Session* session)
    : settings_(std::move(settings)),
      session_(session),
      buckets_(train::CutBuckets(*settings_.catalog, kBucketBytes)),
      core_(buckets_) {}

MachineWorker::~MachineWorker() {
  if (links_ != nullptr) links_->is_lost = true;
}

bool MachineWorker::Strikes(double probability, Instant now) {
  return now < settings_.options->calm_after && settings_.random->Unit() < probability;
}

template <class Event>
void MachineWorker::Tell(const Event& event) {
  train::MachineReduceCore::Commands commands;
  event(&commands);
  for (train::MachineCommand& command : commands) {
    if (!std::holds_alternative<train::AbortGroupCommand>(command)) {
      commands_.push_back(std::move(command));
    } else if (links_ != nullptr) {
      links_->is_aborted = true;
    }
  }
}

// ---- the application and its session -------------------------------------------------------------------------------

void MachineWorker::TakeGroup(const Session::MachineGrouping& group) {
  if (step_ && group.epoch != group_.epoch) settings_.count("machine's group changed in the middle of a round");
  Tell([&](auto* out) { core_.TakeGroup(group, out); });
}

void MachineWorker::TakeStepDone(const Session::StepDone& left) {
  Tell([&](auto* out) { core_.TakeStepDone(left, out); });
}

PushWay MachineWorker::BeginRound(const session::RoundWork& work, float loss_scale,
                                  const std::vector<SlotSums::PartialSum>& parts, Instant now) {
  PushWay way{};
  const client::MachineRound round{work.round, work.generation, work.step, work.slot_count, loss_scale, parts};
  Tell([&](auto* out) { way = core_.BeginRound(round, out); });
  blocks_left_ = settings_.catalog->blocks().size();
  is_slow_ = Strikes(0.1, now);
  if (!is_slow_) FinishBlocks(now);
  return way;
}

// Tells the core which blocks are final: all that are left, or a random number of them if the worker is slow.
void MachineWorker::FinishBlocks(Instant now) {
  is_slow_ = is_slow_ && now < settings_.options->calm_after;
  while (blocks_left_ > 0 && (!is_slow_ || settings_.random->Unit() < 0.2)) {
    const auto block = static_cast<BlockIndex>(--blocks_left_);
    Tell([&](auto* out) { core_.BlockReady(block, out); });
  }
}

void MachineWorker::EndRound() {
  if (blocks_left_ > 0 && step_) settings_.count("round given up while its machine's group waits for it");
  blocks_left_ = 0;
  Tell([&](auto* out) { core_.GiveUpRound(out); });
}

// ---- the group's thread --------------------------------------------------------------------------------------------

train::MachineCommand MachineWorker::TakeCommand() {
  train::MachineCommand command = std::move(commands_.front());
  commands_.pop_front();
  return command;
}

void MachineWorker::Run(Instant now, Outbox* out) {
  FinishBlocks(now);
  while (present_ || !commands_.empty()) {
    if (!present_) {
      present_ = TakeCommand();
      is_begun_ = false;
    }
    if (!std::visit([&](auto& body) { return On(body, now, out); }, *present_)) return;
    present_.reset();
  }
}

MachineWorker::Outcome MachineWorker::Look(bool is_whole, Instant now) {
  // A member may notice that its group is over in the same moment in which its call succeeds, or not.
  if (links_->is_aborted && (!is_whole || settings_.random->Unit() < 0.5)) return Outcome::kFailed;
  if (is_whole) return Outcome::kDone;
  if (links_->is_lost && !links_->fails_at) links_->fails_at = now + Up_to(kSilence);
  if (!links_->fails_at || now < *links_->fails_at) return Outcome::kWaits;
  settings_.count("machine's group broken for want of a member");
  links_->is_aborted = true;
  return Outcome::kFailed;
}

std::size_t MachineWorker::Bring(MachineLinks::Brought brought) {
  const std::size_t call = calls_++;
  if (links_->calls.size() <= call) links_->calls.resize(call + 1);
  links_->calls[call].emplace(group_.rank, std::move(brought));
  return call;
}

bool MachineWorker::Fail(const char* why) {
  Tell([&](auto* out) { core_.Failed(Status(Code::kUnreachable, why), out); });
  return true;
}

bool MachineWorker::On(const train::FormGroupCommand& form, Instant now, Outbox* out) {
  if (!std::exchange(is_begun_, true)) {
    group_ = form.group;
    calls_ = 0;
    is_early_ = settings_.random->Unit() < 0.5;
    Tell([&](auto* commands) { core_.Offered(std::to_string(settings_.node), commands); });
    while (!commands_.empty()) {
      train::MachineCommand command = TakeCommand();
      std::visit([&](auto& body) { (void)On(body, now, out); }, command);
    }
  }
  const Result<std::vector<std::string>> addresses = core_.Addresses();
  if (!addresses.ok()) return Fail("the group is over");
  if (addresses->empty()) return false;
  if (links_ == nullptr) {
    links_ = settings_.board->At(group_.epoch);
    links_->connected.insert(group_.rank);
    join_until_ = now + kJoinMax;
  }
  const Outcome outcome = Look(is_early_ || links_->connected.size() == group_.members.size(), now);
  if (outcome == Outcome::kFailed) return Fail("a member is lost");
  if (outcome == Outcome::kWaits && now < join_until_) return false;
  if (outcome == Outcome::kWaits) {
    settings_.count("machine's group not formed in time");
    return Fail("a member cannot be connected to");
  }
  Tell([&](auto* commands) { core_.Formed(ahead_max(), commands); });
  return true;
}

bool MachineWorker::On(const train::MeetCommand& meet, Instant now, Outbox*) {
  if (!std::exchange(is_begun_, true)) {
    if (!meet.head.joins) settings_.count("worker pushes by itself, its machine's group knows");
    const bool is_silent = Strikes(0.05, now);
    if (is_silent) {
      settings_.count("worker cannot be reached by its machine's group");
      if (!links_->fails_at) links_->fails_at = now + kSilence;
      ++calls_;
    } else {
      (void)Bring({meet.head, {}});
    }
  }
  const std::size_t call = calls_ - 1;
  const Outcome outcome = Look(links_->calls.size() > call && IsWhole(call), now);
  if (outcome == Outcome::kWaits) return false;
  if (outcome == Outcome::kFailed) return Fail("a member is lost");
  std::vector<train::MachineHead> heads;
  for (const auto& [rank, brought] : links_->calls[call]) {
    heads.push_back(brought.head);
    if (settings_.flaw == Flaw::kHeadsOfAnyStep) heads.back().generation = meet.head.generation;
    if (settings_.flaw == Flaw::kHeadsOfAnyStep) heads.back().step = meet.head.step;
  }
  const bool all_join = std::all_of(heads.begin(), heads.end(), [](const auto& head) { return head.joins; });
  if (meet.head.joins && !all_join) {
    settings_.count("worker pushes by itself, because another one of its machine has done so");
  }
  Tell([&](auto* out) { core_.Met(heads, out); });
  return true;
}

bool MachineWorker::On(train::BeginStepCommand& begin, Instant, Outbox*) {
  step_ = Step{};
  step_->begin = std::move(begin);
  for (std::size_t i = 0; step_->begin.is_first && i < step_->begin.plan.sums.size(); ++i) {
    step_->sums.push_back(settings_.sums->Take());
  }
  return true;
}

bool MachineWorker::On(const train::BeginBucketCommand&, Instant now, Outbox*) {
  if (!std::exchange(is_begun_, true)) step_->calls.push_back(Bring({{}, step_->begin.round.parts}));
  const bool waits_for_all = step_->begin.is_first || ahead_max() > 0;
  const Outcome outcome = Look(!waits_for_all || IsWhole(step_->calls.back()), now);
  if (outcome == Outcome::kWaits) return false;
  if (outcome == Outcome::kFailed) return Fail("a member is lost");
  if (Strikes(0.01, now)) {
    settings_.count("machine's group broken after gradients were handed over");
    links_->is_aborted = true;
    return Fail("a connection broke");
  }
  Tell([&](auto* out) { core_.BucketBegun(out); });
  return true;
}

bool MachineWorker::On(const train::FinishBucketCommand&, Instant now, Outbox* out) {
  if (step_->begin.is_first && !PushBucket(now, out)) {
    settings_.count("worker broke off pushing for its machine");
    links_->is_aborted = true;
    return Fail("a connection broke");
  }
  ++step_->finished;
  Tell([&](auto* commands) { core_.BucketFinished(commands); });
  return true;
}

// Adds up the oldest bucket that was begun, and pushes the sums. Returns false if a fault ended this halfway.
bool MachineWorker::PushBucket(Instant now, Outbox* out) {
  const train::BeginStepCommand& step = step_->begin;
  const train::Bucket& bucket = buckets_[step_->finished];
  const auto& brought = links_->calls[step_->calls[step_->finished]];
  std::vector<float*> sums;
  for (const BufferRef& sum : step_->sums) sums.push_back(sum.As<float>());
  for (BlockIndex index = bucket.last + 1; index-- > bucket.first;) {
    if (Strikes(0.01, now)) return false;
    const Block& block = settings_.catalog->blocks()[index];
    std::vector<StagedInput> inputs;
    for (const train::MachinePlan::Part& part : step.plan.parts) {
      const BufferRef& gradient = brought.at(part.rank).parts[part.number].gradient;
      inputs.push_back({part.node, part.samples,
                        gradient ? gradient->data() + block.flat_offset * sizeof(float) : nullptr,
                        train::PartEncoding(part.node, bucket, settings_.encoding)});
    }
    train::AddBlock(step.plan, inputs, block, sums, &step_->addition);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto& sum = step.plan.sums[i];
      session_->Push(train::PushOfSum(step.round, sum, step_->sums[i], block, index, settings_.encoding), now, out);
    }
  }
  return true;
}

bool MachineWorker::On(const train::EndStepCommand&, Instant, Outbox*) {
  if (step_->begin.is_first) settings_.count("worker pushed for its machine");
  step_.reset();
  return true;
}

bool MachineWorker::On(const train::DropGroupCommand&, Instant, Outbox*) {
  if (links_ != nullptr) links_->is_aborted = true;
  links_ = nullptr;
  step_.reset();
  return true;
}

// ---- for the session -----------------------------------------------------------------------------------------------

bool MachineWorker::On(const train::ReleaseRoundCommand& release, Instant now, Outbox* out) {
  if (settings_.flaw != Flaw::kDeferredForgotten) session_->ReleasePushes(release.round, now, out);
  Tell([&](auto* commands) { core_.Settled(commands); });
  return true;
}

bool MachineWorker::On(const train::KeepDeferredCommand& keep, Instant now, Outbox*) {
  session_->SumsMade(keep.round, now);
  Tell([&](auto* commands) { core_.Settled(commands); });
  return true;
}

bool MachineWorker::On(const train::ReportGroupCommand& report, Instant now, Outbox* out) {
  session_->ReportMachineGroup(report.epoch, report.state, report.text, now, out);
  return true;
}

}  // namespace capstan::sim
