// RunCoordinatorProcess.
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <chrono>
#include <optional>

#include "cli/report/job_lines.h"
#include "cli/report/progress.h"
#include "cli/run/address.h"
#include "cli/run/build_info.h"
#include "cli/run/flight_recording.h"
#include "cli/run/former_run.h"
#include "cli/run/go_on_file.h"
#include "cli/run/job_addresses.h"
#include "cli/run/job_transport.h"
#include "cli/run/new_job.h"
#include "cli/run/process_log.h"
#include "cli/run/reach_check.h"
#include "cli/run/run_directory.h"
#include "cli/run/served_metrics.h"
#include "cli/server_processes.h"
#include "common/base/durable_file.h"
#include "common/base/host_port.h"
#include "common/base/mailbox.h"
#include "common/base/process_address.h"
#include "common/base/unix_time.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"
#include "server/coordinator/coordinator_loop.h"
#include "server/storage/file_coordinator_log.h"

namespace capstan::cli {
namespace {

constexpr std::chrono::seconds kProgressEvery{5};
constexpr double kLogWaitSeconds = 10;  // longest wait for an earlier coordinator of this run directory to end

// Logs a job's progress: each validation, and how far the job is, if that has changed, at most every kProgressEvery.
class LoggedProgress {
 public:
  LoggedProgress(std::string metrics_file, std::uint64_t steps) : progress_(std::move(metrics_file), steps) {}

  const Progress& progress() const { return progress_; }

  void Show() {
    for (const std::string& line : progress_.Update()) Print(Severity::kInfo, line);
    const auto now = std::chrono::steady_clock::now();
    const std::string line = progress_.Line();
    if (line.empty() || line == shown_ || now < next_) return;
    next_ = now + kProgressEvery;
    shown_ = line;
    Print(Severity::kInfo, line);
  }

 private:
  Progress progress_;
  std::string shown_;
  std::chrono::steady_clock::time_point next_{};
};

class CoordinatorProcess {
 public:
  CoordinatorProcess(const ServerProcessOptions& options, const EventWriter& events)
      : options_(options),
        events_(events),
        signals_(&events),
        begin_(options.begin),
        registry_(std::make_shared<monitoring::Registry>(ThisBuild())),
        transport_(CreateJobTransport(options.config, options.plaintext, options.key_file,
                                      [this](const std::string& text) { Warn(text); })),
        addresses_(options.config.name(), options.config.cluster.shards_per_server) {}

  Status Run() {
    CAPSTAN_RETURN_IF_ERROR(transport_->Check());
    CAPSTAN_RETURN_IF_ERROR(HoldRunDirectory());
    flight_.emplace("coordinator", FlightFolderOf(run_dir_));
    CAPSTAN_RETURN_IF_ERROR(StartLoop());
    CAPSTAN_RETURN_IF_ERROR(StartExporter());
    CAPSTAN_RETURN_IF_ERROR(Announce());
    ExposureReminder reminder(ExposureWarning(address_));
    while (!loop_->ended()) {
      signals_.Wait(kBeatMs);
      events_.Heartbeat();
      if (const auto line = reminder.Look(std::chrono::steady_clock::now())) Warn(*line);
      if (events_.launched()) RotateOwnLogIfLarge();
      (void)addresses_.WriteAgain();  // its failure was logged
      for (signals_.stop_signal(); stops_asked_ < signals_.stop_count(); ++stops_asked_) loop_->RequestStop();
      if (!events_.launched()) TryToReachServers();
      if (progress_) progress_->Show();
    }
    if (!loop_->outcome().ok()) {
      if (!events_.launched() && signals_.stop_signal() == 0) ForgetFailedStart(run_dir_);
      return loop_->outcome();
    }
    if (former_ == FormerRun::kFinished && options_.begin == RunBegin::kNew) {
      return Invalid("the run in " + run_dir_ + " was finished before. " + WordsForAnotherRun(run_dir_));
    }
    if (progress_) progress_->Show();
    Print(Severity::kInfo, "done: " + std::to_string(options_.config.steps()) + " steps");
    if (!progress_) return {};
    for (const std::string& line : EndLines(progress_->progress(), run_dir_ + "/final.safetensors"))
      Print(Severity::kInfo, line);
    return {};
  }

  // Writes the flight recording because of the error that ends the process.
  void WriteFlight(const Status& failure) {
    if (flight_) flight_->WriteFailure(failure);
  }
  int stop_signal() { return signals_.stop_signal(); }
  // Whether the failure was already logged.
  bool said_failure() const { return failure_.has_value(); }

 private:
  Status HoldRunDirectory() {
    run_dir_ = options_.run_dir;
    if (events_.launched()) return {};  // the launcher holds the directory
    if (run_dir_.empty()) run_dir_ = "runs/" + options_.config.name() + "-coordinator";
    CAPSTAN_ASSIGN_OR_RETURN(former_, FindFormerRun(run_dir_, options_.config, options_.begin));
    if (former_ != FormerRun::kNone && begin_ == RunBegin::kNew) begin_ = RunBegin::kResume;
    CAPSTAN_ASSIGN_OR_RETURN(RunDirectory directory, RunDirectory::Take(run_dir_, options_.config.name(), begin_));
    directory_.emplace(std::move(directory));
    run_dir_ = directory_->path();
    RemoveGoOnCall(run_dir_);
    progress_.emplace(run_dir_ + "/metrics.jsonl", options_.config.steps());
    CAPSTAN_RETURN_IF_ERROR(WriteFileDurably(run_dir_ + "/job.toml", PrintJobConfig(options_.config)));
    const Status pid = WritePid(run_dir_, "coordinator", getpid());
    return pid.code() == Code::kBusy ? Status() : pid;  // other code waits for space on a full disk
  }

  Status StartLoop() {
    server::CoordinatorLoopOptions loop;
    loop.coordinator.config = options_.config;
    loop.coordinator.job_file = PrintJobConfig(options_.config);
    loop.coordinator.job = NewJobId();
    loop.coordinator.accept_rollback = options_.begin == RunBegin::kRollBack;
    loop.coordinator.accept_loss = options_.begin == RunBegin::kRollBack;
    CAPSTAN_ASSIGN_OR_RETURN(loop.log,
                             server::FileCoordinatorLog::Open(run_dir_ + "/snapshots/coordinator.log", kLogWaitSeconds,
                                                              {{.keep = options_.config.snapshot.keep}}));
    if (begin_ != RunBegin::kNew && loop.log->records().empty()) {
      return Corrupt(run_dir_ +
                     "/snapshots/coordinator.log holds no job: bring it back from a copy, or begin a new run");
    }
    CAPSTAN_ASSIGN_OR_RETURN(listen_, FindListen());
    loop.transport = transport_->Options();
    loop.listen = listen_;
    loop.advertise = options_.config.cluster.advertise;
    loop.run_dir = run_dir_;
    loop.flight = flight_->AddLane(std::string(kFlightCoordinator));
    loop.on_notice = [this](const Notice& notice) { OnNotice(notice); };
    loop.on_failed = [this](const Status& status) { OnFailed(status); };
    loop.on_members = [this](const server::Roster& members) { OnMembers(members); };
    loop.on_end = [this] { signals_.Notify(); };
    CAPSTAN_ASSIGN_OR_RETURN(loop_, server::CoordinatorLoop::Start(std::move(loop), registry_.get()));
    address_ = AddressOf(loop_->endpoint());
    return {};
  }

  // Returns the address to listen on. Without a launcher, port 0 is replaced by the port of the previous start or, in a
  // new run, by a free port that is likely to be free at the next start too.
  Result<std::string> FindListen() {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string wanted, transport_->FindCoordinator(run_dir_));
    if (IsLocalAddress(wanted)) return wanted;
    if (events_.launched() || PortOf(wanted) != 0) return NumericHost(wanted);
    const std::optional<std::string> last = begin_ == RunBegin::kNew ? std::nullopt : LastCoordinator(run_dir_);
    if (!last) return NumericHost(ChoosePort(wanted));
    const std::string again = WithHost(HostOf(wanted), *last), key(KeyInAddress(wanted));
    return NumericHost(key.empty() ? again : WithKey(again, key));
  }

  // Adds to the job's status what this process knows.
  std::string StatusJson() const {
    nlohmann::ordered_json status = nlohmann::ordered_json::parse(loop_->StatusJson(), nullptr, false);
    if (status.is_object()) {
      status["transport"] = ProtectionOf(address_);
      status["run_directory"] = run_dir_;
      status["time"] = UnixTime();
      if (events_.launched()) status["logs"] = run_dir_ + "/logs";
    }
    return status.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }

  Status StartExporter() {
    MetricsSection section = options_.config.metrics;
    if (!options_.metrics_listen.empty()) section.listen = options_.metrics_listen;
    monitoring::ExporterOptions pages;
    pages.status_json = [this] { return StatusJson(); };
    pages.history_json = [this] { return loop_->HistoryJson(); };
    pages.http_sd_json = [this] { return addresses_.HttpSd(); };
    pages.warn = [this](const std::string& text) { Warn(text); };
    registry_->NameJob(options_.config.name());
    registry_->NameFolder(run_dir_);
    CAPSTAN_ASSIGN_OR_RETURN(
        metrics_, ServeMetrics(section, MachineOf(listen_), MachineOf(address_), std::move(pages), registry_));
    return {};
  }

  // Writes the address to the run directory, then logs it and sends it to the launcher. A full disk does not stop this:
  // Run tries the write again later.
  Status Announce() {
    if (Status status = addresses_.Begin(run_dir_, address_, metrics_.address); !status.ok()) {
      if (status.code() != Code::kBusy) return status;
      Print(Severity::kWarning, status.message() + "; it is tried again");
    }
    Print(Severity::kInfo, "coordinator of \"" + options_.config.name() + "\" (" + SizeText(options_.config) + ") at " +
                               address_ + ", " + metrics_.Words() + ", run directory " + run_dir_);
    if (!events_.launched()) PrintNextCommands();  // otherwise the launcher has printed it
    events_.Ready({address_}, metrics_.address);
    return {};
  }

  void Warn(const std::string& line) const {
    Print(Severity::kWarning, line);
    events_.Notice(Severity::kWarning, line);
  }

  void PrintNextCommands() {
    if (former_ == FormerRun::kFinished) {
      return Print(Severity::kInfo, "this run is finished, and its weights are in " + run_dir_ +
                                        "/final.safetensors; members that still wait for its end are told so");
    }
    if (former_ == FormerRun::kUnfinished) Print(Severity::kInfo, "going on with the run in " + run_dir_);
    if (const std::string idle = IdleWorkersText(options_.config); !idle.empty()) Print(Severity::kWarning, idle);
    const std::uint32_t servers = options_.config.cluster.servers;
    const bool has_key = !KeyInAddress(address_).empty();
    const std::string allow = !has_key && IsExposed(listen_) ? " --allow-plaintext" : "";
    const std::string server_key = has_key ? " --key-file server.key" : "",
                      key = has_key ? " --key-file worker.key" : "";
    Print(Severity::kInfo,
          "servers: capstan-server --join " + address_ + allow + server_key + " --index 0" +
              (servers > 1 ? " (to " + std::to_string(servers - 1) + ")" : "") +
              (options_.config.model.built_in() ? "; workers: capstan-worker --coordinator " + address_ + allow + key
                                                : "; workers: your own, connected to " + address_));
  }

  // Called on the loop's thread.
  void OnFailed(const Status& status) {
    failure_ = status.message();
    Print(Severity::kError, *failure_);
    events_.Failed(*failure_);
  }

  // Called on the loop's thread. No notice ends the job, not even an error.
  void OnNotice(const Notice& notice) {
    if (notice.text == failure_) return;  // already logged
    Print(notice.severity, notice.text);
    events_.Notice(notice.severity, notice.text);
  }

  // Called on the loop's thread.
  void OnMembers(const server::Roster& members) {
    if (Status status = addresses_.SetMembers(members); !status.ok()) Print(Severity::kWarning, status.message());
    if (!events_.launched() && members_.Push(server::Roster(members)).ok()) signals_.Notify();
  }

  void TryToReachServers() {
    const ReachCheck::Clock::time_point now = ReachCheck::Clock::now();
    const std::uint32_t per_server = options_.config.cluster.shards_per_server;
    while (const std::optional<server::Roster> members = members_.TryPop()) {
      for (const server::Roster::Shard& shard : members->shards) {
        const std::string number = std::to_string(shard.index / per_server);
        const std::string which = per_server == 1 ? "" : "'s shard " + std::to_string(shard.index % per_server);
        reach_.Try("server " + number + which, WithoutKey(AddressOf(shard.endpoint)), now);
      }
    }
    for (const std::string& line : reach_.Look(now)) Print(Severity::kWarning, line);
  }

  const ServerProcessOptions& options_;
  const EventWriter& events_;
  StopSignals signals_;
  int stops_asked_ = 0;
  RunBegin begin_;  // that of the options, but kResume instead of kNew if there was a former run
  FormerRun former_ = FormerRun::kNone;
  std::shared_ptr<monitoring::Registry> registry_;
  std::optional<RunDirectory> directory_;
  std::optional<LoggedProgress> progress_;  // null with a launcher, which shows the progress itself
  std::string run_dir_;
  const std::unique_ptr<JobTransport> transport_;
  std::string listen_, address_;  // addresses
  JobAddresses addresses_;
  Mailbox<server::Roster> members_{64};
  ReachCheck reach_;
  std::optional<std::string> failure_;  // only the loop's thread uses it until that thread has ended
  std::optional<FlightRecording> flight_;
  std::unique_ptr<server::CoordinatorLoop> loop_;
  ServedMetrics metrics_;
};

}  // namespace

int RunCoordinatorProcess(const ServerProcessOptions& options, const EventWriter& events) {
  CoordinatorProcess process(options, events);
  const Status status = process.Run();
  if (status.ok()) return kExitDone;
  const int signal = process.stop_signal();
  if (signal == 0) process.WriteFlight(status);
  if (!process.said_failure()) {
    const bool by_hand = signal != 0 && !events.launched();
    Print(signal != 0 ? Severity::kInfo : Severity::kError,
          by_hand ? status.message() + "; " + kGoOnByHand : status.message());
    events.Failed(status.message());
  }
  return signal != 0 ? kExitSignal + signal : kExitFailed;
}

}  // namespace capstan::cli
