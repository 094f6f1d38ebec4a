#include "worker/machine/machine_reducer.h"

#include <pthread.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/float_control.h"
#include "common/wire/messages/group.h"
#include "worker/collective/group.h"
#include "worker/machine/adder_choice.h"
#include "worker/machine/machine_reduce_core.h"

namespace capstan::train {

namespace {

using session::PushWay;
using session::Session;
using Clock = std::chrono::steady_clock;
using collective::Deadline;

constexpr auto kJoinMax = std::chrono::seconds(5);  // to connect, once all addresses are known

struct Shared {
  MachineReduceCore core{std::vector<Bucket>()};  // has no buckets before Begin
  std::deque<MachineCommand> commands;            // for the group's thread
  collective::Group* group = nullptr;             // null: none is connected
  client::MachineReduce::Counters counters;
};

class MachineReducer : public client::MachineReduce {
 public:
  explicit MachineReducer(MachineReducerOptions options) : options_(std::move(options)) {}
  ~MachineReducer() override { Stop(); }

  void Begin(const Catalog& catalog, Encoding encoding, SendCommand send) override;
  void Stop() override;
  void TakeGroup(const Session::MachineGrouping& group) override {
    Tell([&](MachineReduceCore& core, auto* out) { core.TakeGroup(group, out); });
  }
  void TakeStepDone(const Session::StepDone& left) override {
    Tell([&](MachineReduceCore& core, auto* out) { core.TakeStepDone(left, out); });
  }
  PushWay BeginRound(Round round) override;
  void BlockReady(BlockIndex block) override {
    Tell([&](MachineReduceCore& core, auto* out) { core.BlockReady(block, out); });
  }
  bool Done(client::MachineReduce::Deadline deadline) override {
    return shared_.AwaitUntil(deadline, [](const Shared& shared) { return shared.core.may_end_round(); });
  }
  void GiveUpRound() override {
    Tell([](MachineReduceCore& core, auto* out) { core.GiveUpRound(out); });
  }
  Counters counters() const override {
    return shared_.With([](const Shared& shared) { return shared.counters; });
  }

 private:
  class OfferedAddresses;
  struct Step {
    client::MachineRound round;
    MachineStep parts;
    std::vector<BufferRef> sums;  // flat arrays, by sum of the plan; only at the first member
  };

  // Hands the core an event, and queues the commands that follow for the group's thread. An AbortGroupCommand is
  // carried out at once.
  template <class Event>
  void Tell(const Event& event);
  bool IsOver() const {
    return shared_.With([](const Shared& shared) { return shared.core.is_over(); });
  }

  // Used by the group's thread.
  void Run();
  std::optional<MachineCommand> NextCommand(Deadline deadline);
  void Execute(MachineCommand command) {
    std::visit([this](auto& body) { On(body); }, command);
  }
  void On(const FormGroupCommand& form);
  void On(const MeetCommand& meet);
  void On(BeginStepCommand& begin);
  void On(const BeginBucketCommand& begin);
  void On(const FinishBucketCommand& finish);
  void On(const EndStepCommand& end);
  void On(const DropGroupCommand& drop);
  void On(const ReleaseRoundCommand& release);
  void On(const KeepDeferredCommand& keep);
  void On(ReportGroupCommand& report);
  void On(const NoticeCommand& notice);
  void On(const AbortGroupCommand&) {}  // Tell has carried it out
  Status Connect(const session::MachineGrouping& wanted);
  Result<std::size_t> ChooseAdder(const session::MachineGrouping& wanted);
  Result<std::vector<MachineHead>> Exchange(const MachineHead& mine);
  Status BeginBucket(const Bucket& bucket);
  void PushBlock(BlockIndex index);
  Status Note(Status status);

  const MachineReducerOptions options_;
  const Catalog* catalog_ = nullptr;
  Encoding encoding_ = Encoding::kFp32;
  SendCommand send_;
  std::vector<Bucket> buckets_;  // in the order in which they are sent

  // Used by the group's thread.
  std::unique_ptr<BufferPool> pool_;  // flat arrays for sums; the session may hold one until its blocks are staged
  std::optional<AdderChoice> choice_;
  std::unique_ptr<collective::Group> group_;
  std::unique_ptr<BucketAdder> adder_;  // adder of the current group
  std::optional<Step> step_;
  std::uint64_t bytes_before_ = 0;  // the group's bytes_sent() when last counted

  mutable Guarded<Shared> shared_;
  std::thread thread_;
};

// Exchanges addresses through the coordinator. Training goes on meanwhile, so this ignores the deadline and waits until
// all addresses are there or the group is over.
class MachineReducer::OfferedAddresses : public collective::Rendezvous {
 public:
  explicit OfferedAddresses(MachineReducer* reducer) : reducer_(*reducer) {}

  Result<std::vector<std::string>> Exchange(int, std::string bytes, Deadline) override {
    reducer_.Tell([&](MachineReduceCore& core, auto* out) { core.Offered(std::move(bytes), out); });
    while (auto command = reducer_.NextCommand(Clock::now())) reducer_.Execute(std::move(*command));
    const auto come = [](const Result<std::vector<std::string>>& all) { return !all.ok() || !all->empty(); };
    reducer_.shared_.AwaitUntil(Deadline::max(), [&](const Shared& shared) { return come(shared.core.Addresses()); });
    return reducer_.shared_.With([](const Shared& shared) { return shared.core.Addresses(); });
  }

 private:
  MachineReducer& reducer_;
};

// ---- from outside --------------------------------------------------------------------------------------------------

void MachineReducer::Begin(const Catalog& catalog, Encoding encoding, SendCommand send) {
  catalog_ = &catalog;
  encoding_ = encoding;
  send_ = std::move(send);
  buckets_ = CutBuckets(catalog, options_.bucket_bytes);
  pool_ = std::make_unique<BufferPool>(catalog.element_count() * sizeof(float));
  choice_.emplace(AdderChoiceOptions{options_.device(), options_.libraries, options_.on_notice});
  shared_.Change([&](Shared& shared) { shared.core = MachineReduceCore(buckets_); });
  thread_ = std::thread([this] { Run(); });
}

void MachineReducer::Stop() {
  if (!thread_.joinable()) return;
  Tell([](MachineReduceCore& core, auto* out) { core.Stop(out); });
  thread_.join();
}

PushWay MachineReducer::BeginRound(Round round) {
  PushWay way{};
  Tell([&](MachineReduceCore& core, auto* out) { way = core.BeginRound(std::move(round), out); });
  return way;
}

template <class Event>
void MachineReducer::Tell(const Event& event) {
  shared_.Change([&](Shared& shared) {
    MachineReduceCore::Commands commands;
    event(shared.core, &commands);
    for (MachineCommand& command : commands) {
      if (!std::holds_alternative<AbortGroupCommand>(command)) {
        shared.commands.push_back(std::move(command));
      } else if (shared.group != nullptr) {
        shared.group->Abort();
      }
    }
  });
}

// ---- the group's thread --------------------------------------------------------------------------------------------

void MachineReducer::Run() {
  pthread_setname_np(pthread_self(), "machine-reduce");
  const FloatControl float_control;
  while (auto command = NextCommand(Deadline::max())) Execute(std::move(*command));
}

// Returns nullopt if the deadline has passed without a command, or if the thread has nothing more to do.
std::optional<MachineCommand> MachineReducer::NextCommand(Deadline deadline) {
  shared_.AwaitUntil(deadline,
                     [](const Shared& shared) { return !shared.commands.empty() || shared.core.has_ended(); });
  return shared_.With([](Shared& shared) -> std::optional<MachineCommand> {
    if (shared.commands.empty()) return std::nullopt;
    std::optional<MachineCommand> next(std::move(shared.commands.front()));
    shared.commands.pop_front();
    return next;
  });
}

void MachineReducer::On(const FormGroupCommand& form) {
  const Status connected = Connect(form.group);
  const Result<std::size_t> ahead_max = connected.ok() ? ChooseAdder(form.group) : Result<std::size_t>(connected);
  Tell([&](MachineReduceCore& core, auto* out) {
    ahead_max.ok() ? core.Formed(*ahead_max, out) : core.Failed(ahead_max.status(), out);
  });
}

Status MachineReducer::Connect(const session::MachineGrouping& wanted) {
  OfferedAddresses addresses(this);
  const auto name_of = [members = wanted.members](int rank) { return members[static_cast<std::size_t>(rank)].worker; };
  const int size = static_cast<int>(wanted.members.size());
  CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<collective::Mesh> mesh,
                           options_.create_mesh({wanted.rank, size, options_.host, name_of, options_.silence},
                                                &addresses, Clock::now() + kJoinMax));
  group_ = collective::CreateGroup(std::move(mesh));
  bytes_before_ = 0;
  return {};
}

// Chooses the adder for the connected group, and returns the adder's ahead_max.
Result<std::size_t> MachineReducer::ChooseAdder(const session::MachineGrouping& wanted) {
  const Status over(Code::kStale, "the group is over");
  const bool begins = shared_.Change([&](Shared& shared) {
    if (!shared.core.is_over()) shared.group = group_.get();
    return shared.group != nullptr;
  });
  if (!begins) return over;
  const MachineMembers of{wanted.members, wanted.rank, wanted.epoch, [=, this] { return IsOver() ? over : Status(); }};
  AdderOptions options{catalog_, encoding_, 0, options_.patience};
  for (const Bucket& bucket : buckets_) options.count_max = std::max(options.count_max, bucket.count);
  CAPSTAN_ASSIGN_OR_RETURN(adder_, choice_->Choose(of, options, group_.get()));
  return adder_->ahead_max();
}

void MachineReducer::On(const DropGroupCommand&) {
  shared_.Change([](Shared& shared) { shared.group = nullptr; });
  if (group_) group_->Abort();
  adder_.reset();
  step_.reset();
  group_.reset();
}

void MachineReducer::On(const MeetCommand& meet) {
  const Result<std::vector<MachineHead>> heads = Exchange(meet.head);
  Tell([&](MachineReduceCore& core, auto* out) {
    heads.ok() ? core.Met(*heads, out) : core.Failed(heads.status(), out);
  });
}

Result<std::vector<MachineHead>> MachineReducer::Exchange(const MachineHead& mine) {
  const auto size = static_cast<std::size_t>(group_->size());
  std::vector<float> words(size * MachineHead::kFloats);
  const auto of = [&](std::size_t rank) {
    return std::span(words).subspan(rank * MachineHead::kFloats, MachineHead::kFloats);
  };
  mine.Write(of(static_cast<std::size_t>(group_->rank())));
  CAPSTAN_RETURN_IF_ERROR(group_->AllGather(words, Clock::now() + kApartMax));
  std::vector<MachineHead> heads;
  for (std::size_t rank = 0; rank < size; ++rank) heads.push_back(MachineHead::Read(of(rank)));
  return heads;
}

// ---- a step --------------------------------------------------------------------------------------------------------

void MachineReducer::On(BeginStepCommand& begin) {
  step_.emplace(Step{std::move(begin.round), {std::move(begin.plan), {}, {}, {}}, {}});
  MachineStep& step = step_->parts;
  for (const client::SlotSums::PartialSum& part : step_->round.parts) {
    step.nodes.push_back(part.node);
    step.parts.push_back(part.gradient ? part.gradient.As<const std::byte>() : nullptr);
  }
  for (std::size_t i = 0; begin.is_first && i < step.plan.sums.size(); ++i) {
    step_->sums.push_back(pool_->Take());
    step.sums.push_back(step_->sums.back().As<float>());
  }
}

void MachineReducer::On(const BeginBucketCommand& begin) {
  const Status status = BeginBucket(buckets_[begin.bucket]);
  Tell([&](MachineReduceCore& core, auto* out) { status.ok() ? core.BucketBegun(out) : core.Failed(status, out); });
}

Status MachineReducer::BeginBucket(const Bucket& bucket) {
  if (adder_->is_impatient()) CAPSTAN_RETURN_IF_ERROR(group_->Barrier(Clock::now() + kApartMax));
  return Note(adder_->Begin(step_->parts, bucket));
}

void MachineReducer::On(const FinishBucketCommand&) {
  const Status status = Note(adder_->Finish([this](BlockIndex block) { PushBlock(block); }));
  Tell([&](MachineReduceCore& core, auto* out) { status.ok() ? core.BucketFinished(out) : core.Failed(status, out); });
}

// Counts a failure against the devices only if the group has not ended for another reason, such as a lost member.
Status MachineReducer::Note(Status status) {
  if (!status.ok() && !IsOver() && group_->failure().ok()) choice_->Failed(status);
  return status;
}

void MachineReducer::PushBlock(BlockIndex index) {
  const Block& block = catalog_->blocks()[index];
  for (std::size_t i = 0; i < step_->sums.size(); ++i) {
    send_(PushOfSum(step_->round, step_->parts.plan.sums[i], step_->sums[i], block, index, encoding_));
  }
}

void MachineReducer::On(const EndStepCommand&) {
  step_.reset();
  choice_->StepDone();
  shared_.Change([&](Shared& shared) {
    shared.counters.reduced_bytes += catalog_->element_count() * sizeof(float);
    shared.counters.bytes_out += group_->bytes_sent() - std::exchange(bytes_before_, group_->bytes_sent());
  });
}

// ---- for the session -----------------------------------------------------------------------------------------------

void MachineReducer::On(const ReleaseRoundCommand& release) {
  send_(session::ReleaseCommand{release.round});
  Tell([](MachineReduceCore& core, auto* out) { core.Settled(out); });
}

void MachineReducer::On(const KeepDeferredCommand& keep) {
  send_(session::SumsMadeCommand{keep.round});
  Tell([](MachineReduceCore& core, auto* out) { core.Settled(out); });
}

void MachineReducer::On(ReportGroupCommand& report) {
  if (report.state == GroupState::kFormed) {
    shared_.Change([this](Shared& shared) {
      ++shared.counters.groups_formed;
      if (choice_->on_devices()) ++shared.counters.device_groups_formed;
    });
  }
  send_(session::MachineGroupCommand{report.epoch, report.state, std::move(report.text)});
}

void MachineReducer::On(const NoticeCommand& notice) {
  if (options_.on_notice) options_.on_notice(notice.text);
}

}  // namespace

std::unique_ptr<client::MachineReduce> CreateMachineReducer(MachineReducerOptions options) {
  return std::make_unique<MachineReducer>(std::move(options));
}

}  // namespace capstan::train
