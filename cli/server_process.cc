// RunServerProcess.
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <atomic>
#include <chrono>

#include "cli/run/address.h"
#include "cli/run/build_info.h"
#include "cli/run/flight_recording.h"
#include "cli/run/job_transport.h"
#include "cli/run/process_log.h"
#include "cli/run/run_directory.h"
#include "cli/run/served_metrics.h"
#include "cli/run/trace_file.h"
#include "cli/server_processes.h"
#include "common/base/durable_file.h"
#include "common/base/process_address.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "server/shard/shard_loop.h"
#include "server/storage/rocks_push_log.h"
#include "server/storage/rocks_snapshot_store.h"
#include "update/optimizer.h"

namespace capstan::cli {
namespace {

constexpr int kLookMs = 1000;             // between two checks of the shards, the log file and a disk that was full
constexpr double kStoreWaitSeconds = 10;  // longest wait for an earlier process of this server to end

// Numbers this start of the shards by the system's time in microseconds, so that a later start has a higher number.
Incarnation NewIncarnation() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return {static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count())};
}

server::ShardLoopOptions LoopOptions(const JobConfig& config, ShardIndex shard, Incarnation incarnation) {
  server::ShardLoopOptions options;
  options.shard.shard = shard;
  options.shard.shard_count = config.shard_count();
  options.shard.incarnation = incarnation;
  options.shard.memory_bytes_max =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  options.shard.job = server::JobSettingsOf(config);
  options.advertise = config.cluster.advertise;
  options.coordinator = config.cluster.coordinator;
  options.join_seconds = config.limits.join;
  options.stall_seconds = config.limits.stall;
  options.report_seconds = config.limits.report;
  options.shared_memory = config.cluster.shared_memory;
  return options;
}

std::string TextOf(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

class ServerProcess {
 public:
  ServerProcess(const ServerProcessOptions& options, const EventWriter& events)
      : options_(options),
        events_(events),
        signals_(&events),
        transport_(CreateJobTransport(options.config, options.plaintext, options.key_file,
                                      [this](const std::string& text) {
                                        Notify({Severity::kWarning, text});
                                      })),
        registry_(std::make_shared<monitoring::Registry>(ThisBuild())) {}

  Status Run() {
    CAPSTAN_RETURN_IF_ERROR(transport_->Check());
    CAPSTAN_ASSIGN_OR_RETURN(listens_, transport_->FindShards(options_.index));
    CAPSTAN_RETURN_IF_ERROR(MakeRunFolder());
    if (!events_.launched()) {
      const Status pid = WritePid(run_dir_, name(), getpid());
      if (!pid.ok() && pid.code() != Code::kBusy) return pid;
    }
    flight_.emplace(name(), FlightFolderOf(run_dir_));
    CAPSTAN_ASSIGN_OR_RETURN(trace_, OpenTrace(options_.trace, name()));
    CAPSTAN_RETURN_IF_ERROR(StartExporter());
    CAPSTAN_RETURN_IF_ERROR(StartShards());
    shards_stand_.store(true, std::memory_order_release);
    Announce();
    const Status status = WaitForEnd();
    metrics_.exporter.reset();  // first, because its status page reads the shards
    shards_.clear();            // their threads end here
    WriteTrace(trace_.get());
    if (status.ok() || status.code() == Code::kTimeout || events_.launched()) return status;
    return {status.code(), status.message() + " (run directory here: " + run_dir_ + ")"};
  }

  // Writes the flight recording because of the error that ends the process.
  void WriteFlight(const Status& failure) {
    if (flight_) flight_->WriteFailure(failure);
  }
  int stop_signal() { return signals_.stop_signal(); }

 private:
  std::string name() const { return "server-" + std::to_string(options_.index); }

  std::string StatusJson() const {
    nlohmann::ordered_json status = {{"role", name()},
                                     {"job", options_.config.name()},
                                     {"coordinator", options_.config.cluster.coordinator},
                                     {"run_directory", run_dir_}};
    if (!shards_stand_.load(std::memory_order_acquire)) return TextOf(status);  // the shards are still being started
    for (const auto& shard : shards_) {
      status["shards"].push_back(nlohmann::ordered_json::parse(shard->StatusJson(), nullptr, false));
    }
    return TextOf(status);
  }

  Status StartExporter() {
    MetricsSection section = options_.config.metrics;
    if (!options_.metrics_listen.empty()) section.listen = options_.metrics_listen;
    monitoring::ExporterOptions pages;
    pages.status_json = [this] { return StatusJson(); };
    pages.warn = [this](const std::string& text) { Notify({Severity::kWarning, text}); };
    registry_->NameJob(options_.config.name());
    registry_->NameFolder(run_dir_);
    CAPSTAN_ASSIGN_OR_RETURN(
        metrics_, ServeOwnMetrics(section, options_.config.cluster.coordinator, std::move(pages), registry_));
    return {};
  }

  // Makes the server's folder. Its default name is the same at every start, so that the server finds its earlier files.
  Status MakeRunFolder() {
    run_dir_ = options_.run_dir.empty() ? "runs/" + options_.config.job.name + "-" + name() : options_.run_dir;
    return MakeFolders(run_dir_);
  }

  // The folder of a shard's store and log. The store locks it for this process.
  std::string ShardFolder(ShardIndex shard) const { return server::FolderOfShard(run_dir_ + "/snapshots", shard); }

  // Opens the store of the shard's snapshots. It can also read the snapshots of shards that the job no longer has.
  Result<std::unique_ptr<server::SnapshotStore>> OpenStore(ShardIndex shard) {
    const std::string folder = run_dir_ + "/snapshots";
    const std::vector<ShardIndex> orphans = server::FindOrphans(folder, options_.config.shard_count());
    return server::RocksSnapshotStore::Open(folder, shard, kStoreWaitSeconds, orphans);
  }

  Status StartShards() {
    const Incarnation incarnation = NewIncarnation();
    for (std::uint32_t i = 0; i < options_.config.cluster.shards_per_server; ++i) {
      Result<std::unique_ptr<server::ShardLoop>> started = StartShard(i, incarnation);
      for (bool said = false; started.status().code() == Code::kBusy && signals_.stop_signal() == 0; said = true) {
        if (!said) Notify({Severity::kWarning, name() + " waits for room on the disk: " + started.status().message()});
        signals_.Wait(kLookMs);
        started = StartShard(i, incarnation);
      }
      if (!started.ok()) return started.status();
      shards_.push_back(std::move(started).value());
    }
    return {};
  }

  // Starts a shard. Returns kBusy if the disk is full, as a restarted server may find it; StartShards then tries again.
  Result<std::unique_ptr<server::ShardLoop>> StartShard(std::uint32_t number, Incarnation incarnation) {
    const ShardIndex shard = options_.index * options_.config.cluster.shards_per_server + number;
    server::ShardLoopOptions loop = LoopOptions(options_.config, shard, incarnation);
    loop.transport = transport_->Options();
    loop.listen = listens_[number];
    loop.shard.metrics = metrics_.address;
    CAPSTAN_ASSIGN_OR_RETURN(loop.store, OpenStore(shard));
    if (loop.shard.job.acknowledge == Acknowledge::kDurable) {
      CAPSTAN_ASSIGN_OR_RETURN(loop.log, server::RocksPushLog::Open(ShardFolder(shard)));
    }
    loop.trace = trace_.get();
    loop.flight = flight_->AddLane(FlightNameOf(shard));
    loop.on_notice = [this](const Notice& notice) { Notify(notice); };
    if (number == 0) loop.on_waiting = [](const std::string& line) { Print(Severity::kInfo, line); };  // for all shards
    loop.on_end = [this] { signals_.Notify(); };
    return server::ShardLoop::Start(std::move(loop), registry_.get());
  }

  void Notify(const Notice& notice) const {
    Print(notice.severity, notice.text);
    events_.Notice(notice.severity, notice.text);
  }

  void Announce() {
    std::vector<std::string> addresses;
    std::string list;
    for (const auto& shard : shards_) {
      addresses.push_back(AddressOf(shard->endpoint()));
      list += (list.empty() ? "" : ", ") + addresses.back();
    }
    Print(Severity::kInfo, name() + " at " + list + ", " + metrics_.Words() + "; coordinator " +
                               options_.config.cluster.coordinator + ", run directory " + run_dir_);
    events_.Ready(std::move(addresses), metrics_.address);
  }

  // Waits until all shards have ended. If one fails, stops the others.
  Status WaitForEnd() {
    ExposureReminder reminder(ExposureWarning(AddressOf(shards_.front()->endpoint())));
    Status failure;
    while (true) {
      bool all_ended = true;
      for (const auto& shard : shards_) {
        if (!shard->ended()) all_ended = false;
        if (shard->ended() && !shard->outcome().ok() && failure.ok()) failure = shard->outcome();
      }
      if (all_ended) return failure;
      if (signals_.stop_signal() != 0 || !failure.ok()) {
        for (const auto& shard : shards_) shard->RequestStop();
      }
      events_.Heartbeat();
      if (const auto line = reminder.Look(std::chrono::steady_clock::now())) Print(Severity::kWarning, *line);
      signals_.Wait(kLookMs);
      if (events_.launched()) RotateOwnLogIfLarge();
    }
  }

  const ServerProcessOptions& options_;
  const EventWriter& events_;
  StopSignals signals_;
  const std::unique_ptr<JobTransport> transport_;
  std::string run_dir_;
  std::vector<std::string> listens_;  // of the server's shards
  std::shared_ptr<monitoring::Registry> registry_;
  std::unique_ptr<monitoring::Trace> trace_;  // null: no trace
  std::optional<FlightRecording> flight_;
  std::vector<std::unique_ptr<server::ShardLoop>> shards_;
  std::atomic<bool> shards_stand_{false};  // all shards are started, so the status page may read them
  ServedMetrics metrics_;
};

}  // namespace

int RunServerProcess(const ServerProcessOptions& options, const EventWriter& events) {
  ServerProcess process(options, events);
  const Status status = process.Run();
  if (!status.ok()) {
    process.WriteFlight(status);
    Print(Severity::kError, status.message());
    events.Failed(status.message());
    return kExitFailed;
  }
  const int signal = process.stop_signal();
  if (signal != 0) return kExitSignal + signal;
  Print(Severity::kInfo, "the job is over");
  return kExitDone;
}

}  // namespace capstan::cli
