#include "worker/client/client_base.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/name.h"
#include "common/base/process_address.h"
#include "common/base/shared_memory.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job_config.h"
#include "common/keys/key_file.h"
#include "worker/client/fork_guard.h"

namespace capstan::client {
namespace {

constexpr std::chrono::milliseconds kLookAtStop{100};

}  // namespace

Result<Connection> Connect(const ClientOptions& options, const ProcessTraits& traits) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string coordinator,
                           ReadProcessAddress("the coordinator's address", options.coordinator));
  CAPSTAN_RETURN_IF_ERROR(CheckName("a worker's name", options.worker));
  if (options.rank.has_value() != (options.ranks > 0) || options.rank.value_or(0) >= std::max(options.ranks, 1U)) {
    return Invalid("worker \"" + options.worker + "\": rank " +
                   (options.rank ? std::to_string(*options.rank) : "none") + " of " + std::to_string(options.ranks) +
                   "; ranks are counted from 0 and below their number, and come with it");
  }
  session::SessionLoop::Options loop_options{coordinator, options.worker, options.join_deadline, options.on_notice};
  loop_options.rank = options.rank ? *options.rank + 1 : 0;
  loop_options.ranks = options.ranks;
  loop_options.machine = traits.machine;
  loop_options.metrics = traits.metrics;
  loop_options.input_seconds = traits.input_seconds;
  loop_options.flight = traits.flight;
  CAPSTAN_ASSIGN_OR_RETURN(loop_options.keys, ReadKeys(options.key_file));
  Connection connection;
  if (IsLocalAddress(EndpointOf(coordinator))) connection.memory = std::make_shared<SharedMemory>();
  loop_options.memory = connection.memory;
  CAPSTAN_ASSIGN_OR_RETURN(connection.loop, session::SessionLoop::Start(loop_options));
  const auto deadline = std::chrono::steady_clock::now() + options.join_deadline + std::chrono::seconds(2);
  while (connection.job_file.empty()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return Timeout("waited for the coordinator's job file until the deadline");
    if (traits.stop_requested()) return Refused("asked to stop before the coordinator has answered");
    std::optional<session::LoopEvent> event = connection.loop->events().PopUntil(std::min(deadline, now + kLookAtStop));
    if (!event) continue;
    if (auto* file = std::get_if<session::Session::JobFile>(&*event)) connection.job_file = std::move(file->text);
    if (const auto* failed = std::get_if<session::Session::Failed>(&*event)) return failed->status;
  }
  // Before Declare, so before the session's thread connects to a shard. A job file with faults is Declare's to refuse.
  const Result<JobConfig> config = ParseJobConfig(connection.job_file, "the coordinator's job file");
  if (connection.memory && config.ok() && !config->cluster.shared_memory) connection.memory->Close();
  return connection;
}

ClientBase::ClientBase(Connection connection)
    : loop_(std::move(connection.loop)),
      job_file_(std::move(connection.job_file)),
      memory_(std::move(connection.memory)),
      team_({[this] {
               if (!failure_.ok()) return failure_;
               if (ended_ && !finished_) return Misuse("collective calls come before Leave");
               return declared_ ? Status() : Misuse("collective calls come after Declare");
             },
             [this](Deadline deadline) { return TakeEvent(deadline, "the team"); },
             [this] {
               const Status status = LookUp();
               return status.code() == Code::kStale ? Status() : status;
             },
             [this](session::Command command) { loop_->Send(std::move(command)); }, [this] { return finished_; }}) {}

void ClientBase::Close() {
  if (!loop_) return;
  if (!ended_) (void)Leave("the client was closed").ok();
  loop_.reset();
}

Status ClientBase::TakeEvent(Deadline deadline, const char* what, session::WaitKind kind) {
  std::optional<session::LoopEvent> event;
  {
    const session::WaitTimer timer(&loop_->waits(), kind);
    event = loop_->events().PopUntil(deadline);
  }
  if (!event) return Timeout(std::string("waited for ") + what + " until the deadline");
  std::visit([this](auto& body) { On(body); }, *event);
  return failure_;
}

Status ClientBase::LookUp() {
  while (std::optional<session::LoopEvent> event = loop_->events().TryPop()) {
    std::visit([this](auto& body) { On(body); }, *event);
  }
  if (!failure_.ok()) return failure_;
  return round_is_over() ? Status(Code::kStale, "the round is over") : Status();
}

Status ClientBase::Fail(Status status) {
  if (failure_.ok()) failure_ = std::move(status);
  return failure_;
}

Status ClientBase::Misuse(const std::string& what) { return Fail(Invalid("the client was used wrongly: " + what)); }

void ClientBase::On(session::Session::WorkReady& ready) {
  const session::RoundWork& work = ready.work;
  asked_ = false;
  has_work_ = true;
  void_ = false;
  round_ = work.round;
  work_ = {work.step.value,    work.generation.value,
           work.slots,         work.slot_count,
           ready.loss_scale,   work.updates,
           work.gradient_norm, static_cast<VersionSource>(work.source),
           work.keep,          work.at_end};
  BeginRound(ready);
}

Result<std::optional<capstan::Work>> ClientBase::NextWork(Deadline deadline) {
  if (!failure_.ok()) return failure_;
  if (!declared_) return Misuse("NextWork comes after Declare");
  has_work_ = void_ = false;
  GiveUpRound();
  while (!has_work_ || void_) {
    if (finished_) return std::optional<capstan::Work>();
    has_work_ = void_ = false;
    // ReadyCommand is sent only once per round: a second one would give up a round that is about to be issued.
    if (!std::exchange(asked_, true)) loop_->Send(session::ReadyCommand{});
    CAPSTAN_RETURN_IF_ERROR(TakeEvent(deadline, "work", session::WaitKind::kCommit));
  }
  return std::optional<capstan::Work>(work_);
}

// After a timeout the next call continues the same barrier, even if it was passed in between.
Status ClientBase::Barrier(Deadline deadline) {
  if (!failure_.ok()) return failure_;
  if (!declared_) return Misuse("Barrier comes after Declare");
  if (barrier_state_ == BarrierState::kNone) {
    barrier_state_ = BarrierState::kWaiting;
    barrier_missing_.clear();
    loop_->Send(session::BarrierCommand{});
  }
  while (barrier_state_ == BarrierState::kWaiting) {
    if (finished_) return {Code::kStale, "the job is done: nobody comes to a barrier any more"};
    if (TakeEvent(deadline, "a barrier").ok()) continue;
    if (!failure_.ok()) return failure_;
    const std::string who = barrier_missing_.empty() ? "the coordinator's word" : barrier_missing_;
    return Timeout("waited for " + who + " in a barrier until the deadline");
  }
  barrier_state_ = BarrierState::kNone;
  return {};
}

Status ClientBase::TakeVersion() { return Misuse("TakeVersion: this job's servers or workers run the optimizer"); }

Status ClientBase::KeepVersion(const float*, std::string_view) {
  return Misuse("KeepVersion: this job's servers or workers run the optimizer");
}

Status ClientBase::Leave(const std::string& reason) {
  loop_->Send(session::LeaveCommand{reason});
  ended_ = true;
  (void)Fail(Invalid("the client has left the job; connect another one to take part again"));
  return {};
}

}  // namespace capstan::client

namespace capstan {

Result<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options) {
  CAPSTAN_ASSIGN_OR_RETURN(client::Connection connection, client::Connect(options));
  return client::GuardAgainstFork(client::CreateParameterServerClient(std::move(connection)));
}

}  // namespace capstan
