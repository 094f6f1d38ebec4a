// RunCoordinatorProcess.
#include <unistd.h>

#include <chrono>
#include <optional>

#include "cli/address.h"
#include "cli/build_info.h"
#include "cli/launch/progress.h"
#include "cli/new_job.h"
#include "cli/report/job_lines.h"
#include "cli/run_directory.h"
#include "cli/server_processes.h"
#include "common/job/cluster_section.h"
#include "common/job/metrics_section.h"
#include "common/job_config.h"
#include "common/mailbox.h"
#include "common/messages/shard_address.h"
#include "monitoring/exporter.h"
#include "server/coordinator_loop.h"
#include "server/storage/file_coordinator_log.h"

namespace capstan::cli {
namespace {

constexpr std::chrono::seconds kProgressEvery{5};
constexpr double kLogWaitSeconds = 10;  // for a former coordinator of this run directory to end

class CoordinatorProcess {
 public:
  CoordinatorProcess(const ServerProcessOptions& options, const EventWriter& events)
      : options_(options), events_(events), registry_(std::make_shared<monitoring::Registry>(ThisBuild())) {}

  Status Run() {
    CAPSTAN_RETURN_IF_ERROR(HoldRunDirectory());
    CAPSTAN_RETURN_IF_ERROR(StartLoop());
    CAPSTAN_RETURN_IF_ERROR(StartExporter());
    Announce();
    while (!loop_->ended()) {
      signals_.Wait(kBeatMs);
      events_.Beat();
      for (signals_.stop_signal(); stops_asked_ < signals_.stop_count(); ++stops_asked_) loop_->RequestStop();
      const std::optional<std::vector<ShardAddress>> shards = shards_.TryPop();
      if (shards && !events_.launched()) WriteDownShards(*shards);
      if (progress_) ShowProgress();
    }
    if (!loop_->outcome().ok()) return loop_->outcome();
    if (progress_) ShowProgress();
    Say(Severity::kInfo, "done: all steps are committed");
    if (!progress_) return {};
    for (const std::string& line : EndLines(*progress_, run_dir_ + "/final.safetensors")) Say(Severity::kInfo, line);
    return {};
  }

  int stop_signal() { return signals_.stop_signal(); }
  // A start that failed leaves nothing behind.
  void Discard() {
    exporter_.reset();
    loop_.reset();
    if (directory_) (void)directory_->Discard();
  }
  // Whether people have been told already that it failed.
  bool said_failure() const { return failure_.has_value(); }

 private:
  Status HoldRunDirectory() {
    run_dir_ = options_.run_dir;
    if (events_.launched()) return {};  // the launcher holds it
    CAPSTAN_ASSIGN_OR_RETURN(RunDirectory directory,
                             RunDirectory::Take(run_dir_, options_.config.name(), options_.begin));
    directory_.emplace(std::move(directory));
    run_dir_ = directory_->path();
    progress_.emplace(run_dir_ + "/metrics.jsonl", options_.config.steps());
    CAPSTAN_RETURN_IF_ERROR(WriteFile(run_dir_ + "/job.toml", PrintJobConfig(options_.config)));
    return WritePid(run_dir_, "coordinator", getpid());
  }

  Status StartLoop() {
    server::CoordinatorLoopOptions loop;
    loop.coordinator.config = options_.config;
    loop.coordinator.job_file = PrintJobConfig(options_.config);
    loop.coordinator.job = NewJobId();
    loop.coordinator.accept_rollback = options_.begin == RunBegin::kRollBack;
    loop.coordinator.accept_loss = options_.begin == RunBegin::kRollBack;
    CAPSTAN_ASSIGN_OR_RETURN(
        loop.log, server::FileCoordinatorLog::Open(run_dir_ + "/snapshots/coordinator.log", kLogWaitSeconds));
    if (options_.begin != RunBegin::kNew && loop.log->records().empty()) {
      return Corrupt(run_dir_ +
                     "/snapshots/coordinator.log holds no job: bring it back from a copy, or begin a new run");
    }
    CAPSTAN_ASSIGN_OR_RETURN(loop.listen, NumericHost(options_.config.cluster.coordinator));
    loop.run_dir = run_dir_;
    loop.on_notice = [this](const Notice& notice) { OnNotice(notice); };
    loop.on_failed = [this](const Status& status) { OnFailed(status); };
    loop.on_running = [this](std::vector<ShardAddress> shards) {
      if (shards_.Push(std::move(shards)).ok()) signals_.Notify();
    };
    loop.on_end = [this] { signals_.Notify(); };
    CAPSTAN_ASSIGN_OR_RETURN(loop_, server::CoordinatorLoop::Start(std::move(loop), registry_.get()));
    endpoints_.coordinator = WithoutScheme(loop_->endpoint());
    return {};
  }

  Status StartExporter() {
    monitoring::ExporterOptions exporter;
    exporter.listen = options_.metrics_listen.empty() ? options_.config.metrics.listen : options_.metrics_listen;
    exporter.status_json = [this] { return loop_->StatusJson(); };
    registry_->NameJob(options_.config.name());
    CAPSTAN_ASSIGN_OR_RETURN(exporter_, monitoring::Exporter::Start(std::move(exporter), registry_));
    return {};
  }

  void Announce() {
    Say(Severity::kInfo, "coordinator of \"" + options_.config.name() + "\" (" + SizeText(options_.config) + ") at " +
                             endpoints_.coordinator + ", metrics at http://" + exporter_->address() +
                             "/, run directory " + run_dir_);
    events_.Ready({endpoints_.coordinator}, exporter_->address());
    if (events_.launched()) return;  // the launcher has said the rest
    if (PortOf(options_.config.cluster.coordinator) == 0) {
      Say(Severity::kInfo, "cluster.coordinator leaves the port open, and " + endpoints_.coordinator +
                               " was free: start servers with --set cluster.coordinator=" + endpoints_.coordinator +
                               ", workers with --coordinator " + endpoints_.coordinator);
    }
    if (const std::string idle = IdleWorkersText(options_.config); !idle.empty()) Say(Severity::kWarning, idle);
    WriteDownShards({});
  }

  // By hand: validations as they come, and where the job stands as long as it moves.
  void ShowProgress() {
    for (const std::string& line : progress_->Update()) Say(Severity::kInfo, line);
    const auto now = std::chrono::steady_clock::now();
    const std::string line = progress_->Line();
    if (line.empty() || line == said_progress_ || now < next_progress_) return;
    next_progress_ = now + kProgressEvery;
    said_progress_ = line;
    Say(Severity::kInfo, line);
  }

  // On the loop's thread.
  void OnFailed(const Status& status) {
    failure_ = status.message();
    Say(Severity::kError, *failure_);
    events_.Failed(*failure_);
  }

  // On the loop's thread. However grave, the job goes on: how it ends is the loop's outcome alone.
  void OnNotice(const Notice& notice) {
    if (notice.text == failure_) return;  // said
    Say(notice.severity, notice.text);
    events_.Notice(notice.severity, notice.text);
  }

  // The addresses of the shards, when they are known; by hand there is nobody else to write them down.
  void WriteDownShards(const std::vector<ShardAddress>& shards) {
    Endpoints endpoints = endpoints_;
    endpoints.metrics["coordinator"] = exporter_->address();
    for (const ShardAddress& shard : shards) endpoints.shards.push_back(WithoutScheme(shard.endpoint));
    if (Status status = WriteEndpoints(run_dir_, endpoints); !status.ok()) Say(Severity::kWarning, status.message());
  }

  const ServerProcessOptions& options_;
  const EventWriter& events_;
  StopSignals signals_;
  int stops_asked_ = 0;
  std::shared_ptr<monitoring::Registry> registry_;
  std::optional<RunDirectory> directory_;
  std::optional<Progress> progress_;  // by hand; else the launcher shows it
  std::string said_progress_;
  std::chrono::steady_clock::time_point next_progress_{};
  std::string run_dir_;
  Endpoints endpoints_;
  Mailbox<std::vector<ShardAddress>> shards_{64};
  std::optional<std::string> failure_;  // the loop's thread, until it has ended
  std::unique_ptr<server::CoordinatorLoop> loop_;
  std::unique_ptr<monitoring::Exporter> exporter_;
};

}  // namespace

int RunCoordinatorProcess(const ServerProcessOptions& options, const EventWriter& events) {
  CoordinatorProcess process(options, events);
  const Status status = process.Run();
  if (status.ok()) return kExitDone;
  if (!process.said_failure()) {
    Say(Severity::kError, status.message());
    events.Failed(status.message());
  }
  const int signal = process.stop_signal();
  if (signal == 0) process.Discard();
  return signal != 0 ? kExitSignal + signal : kExitFailed;
}

}  // namespace capstan::cli
