#include "server/coordinator/coordinator_loop.h"

#include <pthread.h>

#include "common/base/float_control.h"
#include "common/config/job/limits_section.h"
#include "common/wire/messages/view.h"
#include "monitoring/mirror_transport.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/final_weights.h"
#include "server/net/advertised_endpoint.h"
#include "server/net/request_metrics.h"

namespace capstan::server {
namespace {

constexpr Instant kTickEvery = std::chrono::milliseconds(100);
constexpr Instant kRetryEvery = std::chrono::milliseconds(1);
constexpr Instant kStatusEvery = std::chrono::milliseconds(500);
constexpr Instant kClosingMax = std::chrono::seconds(3);

// A log that waits for free disk space in Append.
class PatientLog : public CoordinatorLog {
 public:
  PatientLog(std::unique_ptr<CoordinatorLog> log, std::string path, RoomWait* room)
      : log_(std::move(log)), path_(std::move(path)), room_(room) {}
  Status Append(LogRecord record) override {
    return room_->Write(path_, [&] { return log_->Append(record); });
  }
  const std::vector<LogRecord>& records() const override { return log_->records(); }

 private:
  const std::unique_ptr<CoordinatorLog> log_;
  const std::string path_;
  RoomWait* const room_;
};

}  // namespace

// The job's time: it excludes the time spent waiting for disk space.
Instant CoordinatorLoop::Now() const {
  return std::chrono::steady_clock::now().time_since_epoch() - (room_ ? room_->waited() : Instant());
}

Result<std::unique_ptr<CoordinatorLoop>> CoordinatorLoop::Start(CoordinatorLoopOptions options,
                                                                monitoring::Registry* registry) {
  std::unique_ptr<CoordinatorLoop> loop(new CoordinatorLoop);
  loop->transport_ = CreateZmqTransport(options.transport, &loop->counters_);
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bound, loop->transport_->Bind("tcp://" + options.listen));
  CAPSTAN_ASSIGN_OR_RETURN(loop->endpoint_, AdvertisedEndpoint(bound, options.advertise, "cluster.coordinator"));
  CAPSTAN_ASSIGN_OR_RETURN(StepLog step_log, StepLog::Open(options.run_dir + "/metrics.jsonl"));
  loop->step_log_.emplace(std::move(step_log));
  loop->transport_metrics_ = registry->Create<monitoring::TransportMetrics>();
  loop->metrics_ = registry->Create<monitoring::CoordinatorMetrics>();
  RoomWait::Options room{options.on_notice, [raw = loop.get()] { return raw->stops_requested_.load() > 0; }, {}, {}};
  room.report_seconds = options.coordinator.config.limits.report;
  room.stall_seconds = options.coordinator.config.limits.stall;
  loop->room_.emplace(std::move(room));
  loop->log_ = options.log ? std::move(options.log) : std::make_unique<MemoryCoordinatorLog>();
  loop->log_ = std::make_unique<PatientLog>(std::move(loop->log_), options.run_dir + "/snapshots", &*loop->room_);
  loop->core_ = std::make_unique<Coordinator>(options.coordinator, loop->log_.get(), loop->metrics_, loop->Now());
  if (loop->core_->state() == Coordinator::State::kFailed) return loop->core_->failure();
  loop->outgoing_ =
      std::make_unique<Outgoing>(loop->transport_.get(), loop->transport_metrics_.get(), options.on_notice);
  loop->options_ = std::move(options);
  loop->status_.Publish(loop->core_->StatusJson(loop->Now()));
  loop->thread_ = std::thread([raw = loop.get()] { raw->Run(); });
  return loop;
}

CoordinatorLoop::~CoordinatorLoop() {
  stops_requested_.store(2);
  transport_->Wake();
  if (thread_.joinable()) thread_.join();
}

void CoordinatorLoop::RequestStop() {
  stops_requested_.fetch_add(1);
  transport_->Wake();
}

void CoordinatorLoop::Run() {
  const FloatControl float_control;
  pthread_setname_np(pthread_self(), "coordinator");
  concluded_before_ = core_->concluded();
  if (concluded_before_) BeginClosing({});
  Instant next_tick = Now();
  while (phase_ != Phase::kEnded) {
    const Instant now = Now();
    if (now >= next_tick) {
      next_tick = now + kTickEvery;
      Tick(now);
    }
    const Instant wait = outgoing_->waiting() ? kRetryEvery : next_tick - now;
    transport_->Poll(wait, [&](PeerId from, const Message& message) { HandleOne(from, message); });
    if (outgoing_->waiting()) outgoing_->Retry();
    SeeState(Now());
  }
  monitoring::MirrorTransport(counters_, transport_metrics_.get());
  status_.Publish(core_->StatusJson(Now()));
  ended_.store(true, std::memory_order_release);
  if (options_.on_end) options_.on_end();
}

void CoordinatorLoop::HandleOne(PeerId from, const Message& message) {
  const Instant now = Now();
  if (!final_weights_ || !final_weights_->Handle(from, message, now, &out_)) {
    core_->Handle(from, message, now, &out_);
    CountRequest(message, out_, &metrics_->requests);
  }
  (void)SendOut();
}

void CoordinatorLoop::Tick(Instant now) {
  if (phase_ != Phase::kClosing) {
    if (stops_requested_.load() > 0) core_->RequestStop(now);
    if (stops_requested_.load() > 1) Abandon(Refused("the job was stopped"));
  }
  core_->Tick(now, &out_);
  PublishMembers();
  const std::size_t alive = SendOut();
  monitoring::MirrorTransport(counters_, transport_metrics_.get());
  if (phase_ != Phase::kClosing) return;
  // Every shard was just asked to end: when no connection is left, all have ended.
  const Instant waited = now - closing_began_;
  // A coordinator that was restarted after the job's end stays for members that have not learned of the end.
  const bool nobody = alive == 0 && waited >= kTickEvery && !core_->AwaitsWorkers() && !concluded_before_;
  if (nobody || waited >= kClosingMax) phase_ = Phase::kEnded;
}

// Returns how many messages were sent or wait for room.
std::size_t CoordinatorLoop::SendOut() {
  WriteRecords();  // before members learn of the step: a crash in between leaves no gap in the records
  if (core_->state() == Coordinator::State::kRunning && running_generation_ != core_->generation()) {
    running_generation_ = core_->generation();
    PublishMembers();  // first: users may look once the log says that the job runs
  }
  // A failure is reported to the user before the members learn of it.
  if (core_->state() == Coordinator::State::kFailed) BeginClosing(core_->failure());
  if (options_.on_notice) {
    for (const Notice& notice : out_.notices) options_.on_notice(notice);
  }
  const std::size_t alive = outgoing_->Send(&out_.envelopes);
  out_.Clear();
  return alive;
}

void CoordinatorLoop::Abandon(const Status& why) { core_->Abandon(why, &out_); }

void CoordinatorLoop::WriteRecords() {
  const std::vector<StepRecord> records = core_->TakeRecords();
  if (records.empty()) return;
  Status status = step_log_->Append(records);
  if (status.code() == Code::kBusy) status = room_->Write(step_log_->path(), [this] { return step_log_->Flush(); });
  if (!status.ok()) Abandon(status);
}

// Passes changed members to on_members. Once the job is over, it passes no more, so those passed last stay.
void CoordinatorLoop::PublishMembers() {
  const Coordinator::State state = core_->state();
  const bool over = state == Coordinator::State::kFinished || state == Coordinator::State::kStopped ||
                    state == Coordinator::State::kFailed;
  if (over || phase_ == Phase::kClosing || !options_.on_members) return;
  Roster members = core_->roster();
  if (members == members_) return;
  members_ = std::move(members);
  options_.on_members(members_);
}

// Passes the core's progress on to files and callbacks.
void CoordinatorLoop::SeeState(Instant now) {
  const Coordinator::State state = core_->state();
  if (now >= next_status_ || state != published_) {
    next_status_ = now + kStatusEvery;
    published_ = state;
    status_.Publish(core_->StatusJson(now));
  }
  if (phase_ == Phase::kReading && state != Coordinator::State::kFinished) {  // a shard was lost: steps are done again
    phase_ = Phase::kServing;
    final_weights_.reset();
    followers_since_.reset();
  }
  if (state == Coordinator::State::kFinished) ReadFinalWeights(now);
  if (state == Coordinator::State::kStopped) {
    const SnapshotId newest = core_->newest_snapshot();
    BeginClosing(Refused("stopped at step " + std::to_string(core_->step().value) +
                         (newest.IsNone() ? "; there is no snapshot"
                                          : "; the newest snapshot is of version " +
                                                std::to_string(newest.version.value) + ", from which it can go on")));
  }
  (void)SendOut();
}

void CoordinatorLoop::ReadFinalWeights(Instant now) {
  if (core_->concluded()) {
    if (phase_ == Phase::kReading && !WaitsForFollowers(now)) BeginClosing({});
    return;
  }
  if (phase_ == Phase::kServing) {
    if (Status status = BeginFinalWeights(); !status.ok()) return BeginClosing(std::move(status));
    phase_ = Phase::kReading;
  }
  if (phase_ != Phase::kReading) return;
  final_weights_->Tick(now, &out_);
  if (!final_weights_->outcome() || !core_->SnapshotsSettled()) return;
  const Status outcome = *final_weights_->outcome();
  if (outcome.code() == Code::kBusy) {  // the disk is full again: wait for space once more
    final_weights_.reset();
    phase_ = Phase::kServing;
    return;
  }
  if (outcome.ok()) core_->Conclude(&out_);  // before the wait: the job is done even if a shard is lost now
  if (!outcome.ok() || !WaitsForFollowers(now)) BeginClosing(outcome);
}

// Creates the file with its full size on disk, before any weights are read into it.
Status CoordinatorLoop::BeginFinalWeights() {
  const std::string path = options_.run_dir + "/final.safetensors";
  return room_->Write(path, [&] {
    auto reader = FinalWeights::Create(core_->ReaderView(), core_->catalog(), path, options_.coordinator.config.limits,
                                       transport_.get(), Now());
    if (reader.ok()) final_weights_ = std::move(reader).value();
    return reader.status();
  });
}

// Returns whether readers may still fetch the last version, for which the shards must stay. They have one lease.
bool CoordinatorLoop::WaitsForFollowers(Instant now) {
  if (core_->follower_count() == 0 || stops_requested_.load() > 0) return false;
  if (!followers_since_) {
    followers_since_ = now;
    if (options_.on_notice) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(core_->lease()).count();
      options_.on_notice({Severity::kInfo, "the job is done; waiting up to " + std::to_string(seconds) + " s for " +
                                               Count(core_->follower_count(), "reader") +
                                               " to fetch the final weights"});
    }
  }
  return now - *followers_since_ < core_->lease();
}

void CoordinatorLoop::BeginClosing(Status outcome) {
  if (phase_ == Phase::kClosing || phase_ == Phase::kEnded) return;
  phase_ = Phase::kClosing;
  closing_began_ = Now();
  outcome_ = std::move(outcome);
  final_weights_.reset();
  core_->Shutdown();
  if (!outcome_.ok() && options_.on_failed) options_.on_failed(outcome_);
}

std::string CoordinatorLoop::StatusJson() const { return status_.Read(); }

}  // namespace capstan::server
