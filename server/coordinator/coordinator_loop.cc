#include "server/coordinator/coordinator_loop.h"

#include <pthread.h>

#include <utility>
#include <vector>

#include "common/base/float_control.h"
#include "common/base/process_address.h"
#include "common/base/system_secret.h"
#include "common/base/unix_time.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/metrics_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/keys/admission.h"
#include "common/keys/role_name.h"
#include "common/wire/messages/view.h"
#include "server/coordinator/coordinator.h"
#include "server/net/request_metrics.h"

namespace capstan::server {
namespace {

constexpr Instant kTickEvery = std::chrono::milliseconds(100);
constexpr Instant kClosingMax = std::chrono::seconds(3);

// Writes the time of day into the answers to processes that ask for the job file: they compare clocks.
void StampAnswers(std::vector<Envelope>* envelopes) {
  for (Envelope& envelope : *envelopes) {
    View* const view = envelope.message.header.As<View>();
    if (view == nullptr || view->job_file.empty()) continue;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    view->clock_ms = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  }
}

const char* NameOf(CoordinatorState state) {
  switch (state) {
    case CoordinatorState::kCollecting: return "collects its shards and workers";
    case CoordinatorState::kResetting: return "resets the shards";
    case CoordinatorState::kRunning: return "runs";
    case CoordinatorState::kFinished: return "finished";
    case CoordinatorState::kStopped: return "stopped";
    case CoordinatorState::kFailed: break;
  }
  return "failed";
}

// The time of the flight recorder, which goes on while the job's time stands still.
Instant RecorderTime() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace

Result<std::unique_ptr<CoordinatorLoop>> CoordinatorLoop::Start(CoordinatorLoopOptions options,
                                                                monitoring::Registry* registry) {
  std::unique_ptr<CoordinatorLoop> loop(new CoordinatorLoop(std::move(options)));
  CAPSTAN_RETURN_IF_ERROR(loop->Open(registry));
  loop->thread_ = std::thread([raw = loop.get()] { raw->Run(); });
  return loop;
}

CoordinatorLoop::CoordinatorLoop(CoordinatorLoopOptions options)
    : options_(std::move(options)),
      members_(options_.on_members),
      flight_(options_.flight),
      notices_([this](const Notice& notice) {
        flight_.Log(notice, RecorderTime());
        if (options_.on_notice) options_.on_notice(notice);
      }) {}

Status CoordinatorLoop::Open(monitoring::Registry* registry) {
  LoopSocket::Options socket{options_.transport, EndpointOf(options_.listen), "cluster.coordinator",
                             options_.advertise, options_.on_notice,          Receiver::kCoordinator};
  socket.flight = options_.flight;
  socket.transport.on_note = [this](const std::string& text) {
    if (options_.on_notice) options_.on_notice({Severity::kWarning, text});
  };
  socket.shards_per_server = options_.coordinator.config.cluster.shards_per_server;
  socket.on_refused = [this](const Principal& sender, const std::string& what) {
    out_.LogAndAudit(Severity::kWarning, AuditKind::kRefused, "refused: " + Describe(sender) + " " + what,
                     Describe(sender));
  };
  CAPSTAN_ASSIGN_OR_RETURN(socket_, LoopSocket::Open(std::move(socket), registry));
  metrics_ = registry->Create<monitoring::CoordinatorMetrics>();
  const LimitsSection& limits = options_.coordinator.config.limits;
  RoomWait::Options room{options_.on_notice, [this] { return stop_requested(); }, {}, {}};
  room.report_seconds = limits.report;
  room.stall_seconds = limits.stall;
  const JobConfig& config = options_.coordinator.config;
  std::optional<TensorBoardLog> curves;
  if (config.metrics.tensorboard) curves.emplace(options_.run_dir + "/tensorboard", config.steps());
  CAPSTAN_ASSIGN_OR_RETURN(
      files_, RunFiles::Open(options_.run_dir, std::move(options_.log), std::move(room), std::move(curves)));
  if (!options_.coordinator.draw_secret) options_.coordinator.draw_secret = DrawSystemSecret;
  core_ = std::make_unique<Coordinator>(options_.coordinator, files_->log(), metrics_, files_->JobTime());
  if (core_->state() == Coordinator::State::kFailed) return core_->failure();
  if (options_.coordinator.config.snapshot.enabled()) metrics_->snapshot_time.Set(UnixTime());
  completion_.emplace(Completion::Options{core_.get(), files_.get(), socket_->transport(), limits, options_.on_notice,
                                          [this] { return stop_requested(); }});
  status_.ReadHistory(options_.run_dir);
  status_.Publish(*core_, files_->JobTime());
  return {};
}

CoordinatorLoop::~CoordinatorLoop() {
  stops_requested_.store(2);
  if (!thread_.joinable()) return;
  socket_->Wake();
  thread_.join();
}

void CoordinatorLoop::RequestStop() {
  stops_requested_.fetch_add(1);
  socket_->Wake();
}

void CoordinatorLoop::Run() {
  const FloatControl float_control;
  pthread_setname_np(pthread_self(), "coordinator");
  concluded_before_ = core_->concluded();
  if (concluded_before_) BeginClosing({});
  Instant next_tick = files_->JobTime();
  while (phase_ != Phase::kEnded) {
    const Instant now = files_->JobTime();
    if (now >= next_tick) {
      next_tick = now + kTickEvery;
      Tick(now);
    }
    socket_->Poll(next_tick - now, [&](PeerId from, const Principal& sender, const Message& message) {
      HandleOne(from, sender, message);
    });
    SeeState(files_->JobTime());
  }
  notices_.Flush();
  files_->EndAudit();
  socket_->PublishCounts();
  status_.Publish(*core_, files_->JobTime());
  ended_.store(true, std::memory_order_release);
  if (options_.on_end) options_.on_end();
}

void CoordinatorLoop::HandleOne(PeerId from, const Principal& sender, const Message& message) {
  const Instant now = files_->JobTime();
  if (!completion_->Handle(from, message, now, &out_)) {
    core_->Handle(from, sender, message, now, &out_);
    CountRequest(message, out_, &metrics_->requests);
  }
  (void)SendOut();
}

void CoordinatorLoop::AuditRefusedKeys() {
  if (!options_.transport.admission) return;
  for (std::string& line : options_.transport.admission->TakeRefusals()) {
    out_.Audit(AuditKind::kRefused, std::move(line));  // the admission has told the log
  }
}

void CoordinatorLoop::Tick(Instant now) {
  AuditRefusedKeys();
  if (phase_ != Phase::kClosing) {
    if (stop_requested()) core_->RequestStop(now);
    if (stops_requested_.load() > 1) core_->Abandon(Refused("the job was stopped"), &out_);
  }
  core_->Tick(now, &out_);
  if (const std::uint64_t taken = metrics_->snapshots_taken.value(); taken != std::exchange(snapshots_seen_, taken))
    metrics_->snapshot_time.Set(UnixTime());
  members_.Look(*core_);
  notices_.Look(now);
  flight_.Waits([&] { return core_->WaitingFor(now); }, RecorderTime(), core_->step().value, core_->generation());
  const std::size_t alive = SendOut();
  socket_->PublishCounts();
  if (phase_ != Phase::kClosing) return;
  // Every shard was just sent a Shutdown. If no message could be sent or queued, no shard is connected any more.
  const Instant waited = now - closing_began_;
  // A coordinator that was restarted after the job's end stays for kClosingMax, so that members can learn of the end.
  const bool nobody = alive == 0 && waited >= kTickEvery && !core_->AwaitsWorkers() && !concluded_before_;
  if (nobody || waited >= kClosingMax) phase_ = Phase::kEnded;
}

// Returns how many messages were sent or wait for room in the socket.
std::size_t CoordinatorLoop::SendOut() {
  WriteRecords();  // before members learn of the step: a crash in between leaves no gap in the records
  // A failure is reported to the user before the members learn of it.
  if (core_->state() == Coordinator::State::kFailed) BeginClosing(core_->failure());
  if (Status status = files_->Audit(out_.audit); !status.ok()) out_.Log(Severity::kWarning, status.message());
  status_.AddEvents(out_.audit, core_->step());
  members_.SeeGeneration(*core_);
  NoteState();
  for (const Notice& notice : out_.notices) notices_.Take(notice, files_->JobTime());
  StampAnswers(&out_.envelopes);
  const std::size_t alive = socket_->Send(&out_.envelopes);
  out_.Clear();
  return alive;
}

// Notes the state in the flight recorder before the messages that follow from it are sent.
void CoordinatorLoop::NoteState() {
  flight_.State(NameOf(core_->state()), RecorderTime(), core_->step().value, core_->generation());
}

void CoordinatorLoop::WriteRecords() {
  std::vector<StepRecord> records = core_->TakeRecords();
  if (records.empty()) return;
  for (StepRecord& record : records) record.time = UnixTime();
  status_.AddSteps(records);
  if (Status status = files_->Append(records); !status.ok()) core_->Abandon(std::move(status), &out_);
  if (Status status = files_->AppendCurves(records); !status.ok()) {
    out_.Log(Severity::kWarning, status.message() + "; the curves for TensorBoard have a gap until it can be written");
  }
}

// Publishes the core's state, and goes on to the job's end if that state calls for it.
void CoordinatorLoop::SeeState(Instant now) {
  status_.Look(*core_, now);
  const Coordinator::State state = core_->state();
  if (state != Coordinator::State::kFinished) {
    completion_->Reset();
  } else if (phase_ == Phase::kServing) {
    if (std::optional<Status> outcome = completion_->Advance(now, &out_)) BeginClosing(*std::move(outcome));
  }
  if (state == Coordinator::State::kStopped) {
    const SnapshotId newest = core_->newest_snapshot();
    BeginClosing(Refused("stopped at step " + std::to_string(core_->step().value) +
                         (newest.IsNone() ? "; there is no snapshot"
                                          : "; the newest snapshot is of version " +
                                                std::to_string(newest.version.value) + ", from which it can go on")));
  }
  (void)SendOut();
}

void CoordinatorLoop::BeginClosing(Status outcome) {
  if (phase_ != Phase::kServing) return;
  phase_ = Phase::kClosing;
  closing_began_ = files_->JobTime();
  outcome_ = std::move(outcome);
  if (!concluded_before_) out_.Audit(AuditKind::kEnded, outcome_.ok() ? "all steps are done" : outcome_.message());
  completion_->Reset();
  members_.Close();
  core_->Shutdown();
  if (!outcome_.ok() && options_.on_failed) options_.on_failed(outcome_);
}

}  // namespace capstan::server
