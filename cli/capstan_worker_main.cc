// capstan-worker: computes gradients for a job. It receives the job file from the coordinator.
#include <sys/resource.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <system_error>

#include "cli/run/address.h"
#include "cli/run/beat_thread.h"
#include "cli/run/build_info.h"
#include "cli/run/events.h"
#include "cli/run/exposure.h"
#include "cli/run/flight_recording.h"
#include "cli/run/process.h"
#include "cli/run/process_keys.h"
#include "cli/run/process_log.h"
#include "cli/run/served_metrics.h"
#include "cli/run/trace_file.h"
#include "cli/worker_arguments.h"
#include "common/base/name.h"
#include "common/base/process_address.h"

namespace capstan::cli {
namespace {

std::string DefaultName() {
  std::array<char, 65> host{};  // HOST_NAME_MAX and a zero byte
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = 0;
  return NameOfProcess(host[0] == 0 ? "worker" : host.data(), getpid());
}

std::string LimitText(decltype(RLIMIT_AS) resource, std::uint64_t unit, const char* unit_name) {
  rlimit most{};
  if (getrlimit(resource, &most) != 0 || most.rlim_cur == RLIM_INFINITY) return "none";
  return std::to_string(most.rlim_cur / unit) + unit_name;
}

// Explains why no thread could be made. Three limits are the usual causes, and the system does not report which one was
// reached, so the text names all three.
std::string NoThread(const std::system_error& error) {
  return std::string("the system gave this worker no thread, or no memory for one (") + error.what() +
         "): its address space (ulimit -v) has the limit " + LimitText(RLIMIT_AS, 1 << 20, " MiB") +
         ", its user's threads (ulimit -u) " + LimitText(RLIMIT_NPROC, 1, "") +
         ", and its control group may have one of threads (pids.max); raise the one that is low, or give it fewer "
         "--threads";
}

Status RunJob(WorkerArguments* arguments, const EventWriter& events, StopSignals* signals) {
  const BeatThread beats(events);
  auto registry = std::make_shared<monitoring::Registry>(ThisBuild());
  const std::string& coordinator = arguments->worker.coordinator;
  const auto metrics = registry->Create<monitoring::WorkerMetrics>();
  const auto transport_metrics = registry->Create<monitoring::TransportMetrics>();
  monitoring::ExporterOptions pages;
  pages.status_json = [metrics, name = arguments->worker.name] {
    const nlohmann::ordered_json status = {{"role", "worker"},
                                           {"step", static_cast<std::uint64_t>(metrics->step.value())},
                                           {"slots", static_cast<std::uint64_t>(metrics->slots.value())}};
    return status.dump();
  };
  pages.warn = [&events](const std::string& text) {
    Print(Severity::kWarning, text);
    events.Notice(Severity::kWarning, text);
  };
  const Result<ServedMetrics> served = ServeOwnMetrics(arguments->metrics, coordinator, std::move(pages), registry);
  if (!served.ok()) {
    return {served.status().code(), served.status().message() + "; check --coordinator and --metrics-listen"};
  }
  arguments->worker.metrics = served->address;
  Print(Severity::kInfo,
        "worker \"" + arguments->worker.name + "\", " + served->Words() + "; coordinator " + coordinator);
  events.Ready({}, arguments->worker.metrics);
  arguments->worker.stop_requested = [signals, launched = events.launched()] {
    if (launched) RotateOwnLogIfLarge();
    return signals->stop_signal() != 0;
  };
  arguments->worker.plugins = OwnFolder() + "/../lib/capstan";
  arguments->worker.libraries = kernels::SearchOf(std::getenv);
  arguments->worker.on_job = [registry](const std::string& job) { registry->NameJob(job); };
  arguments->worker.say = [](const std::string& text) { Print(Severity::kInfo, text); };
  return train::RunWorker(arguments->worker, metrics, transport_metrics);
}

Status Run(WorkerArguments* arguments, const EventWriter& events, StopSignals* signals) {
  try {
    return RunJob(arguments, events, signals);
  } catch (const std::bad_alloc&) {
    return Refused(
        "no more memory was given while this worker read the job's data and made its model; give it less of "
        "[data], or start it where there is more memory");
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) return Refused(NoThread(error));
    return Refused(std::string("the system refused something that this worker needs: ") + error.what());
  }
}

int Main(int argc, char** argv) {
  WorkerArguments arguments;
  CommandLine line = WorkerCommandLine(&arguments);
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  const char* const address = std::getenv("CAPSTAN_COORDINATOR");
  if (arguments.worker.coordinator.empty() && address != nullptr) arguments.worker.coordinator = address;
  arguments.worker.key_file = KeyFileOf(arguments.worker.key_file);
  if (!arguments.worker.key_file.empty()) KeepOutOfCoreFiles();
  if (arguments.worker.coordinator.empty()) {
    Complain("capstan-worker",
             "say which job: --coordinator ADDRESS, or CAPSTAN_COORDINATOR, as the job's launch says it");
    return kExitUsage;
  }
  Result<std::string> coordinator = ReadProcessAddress("--coordinator", arguments.worker.coordinator);
  if (!coordinator.ok()) {
    Complain("capstan-worker", coordinator.status().message());
    return kExitUsage;
  }
  arguments.worker.coordinator = *std::move(coordinator);
  const Plaintext plaintext = arguments.allow_plaintext ? Plaintext::kAllowed : Plaintext::kRefused;
  if (Status status = CheckExposure("--coordinator", arguments.worker.coordinator, plaintext); !status.ok()) {
    Complain("capstan-worker", status.message());
    return kExitUsage;
  }
  if (arguments.worker.name.empty()) arguments.worker.name = DefaultName();
  PrepareProcess();
  BlockFlightSignal();
  RaiseOpenFilesLimit(kWorkerFilesMax);
  const EventWriter events(arguments.events_fd);
  StopSignals signals(&events);
  Result<std::unique_ptr<monitoring::Trace>> trace = OpenTrace(arguments.trace, arguments.worker.name);
  if (!trace.ok()) {
    Complain("capstan-worker", trace.status().message());
    return kExitUsage;
  }
  arguments.worker.trace = trace->get();
  const bool has_name = CheckName("a worker's name", arguments.worker.name).ok();  // else Run refuses it
  FlightRecording flight(arguments.worker.name, has_name ? arguments.flight : "");
  arguments.worker.flight = flight.AddLane(arguments.worker.name);
  const Status status = Run(&arguments, events, &signals);
  WriteTrace(trace->get());
  if (const int signal = signals.stop_signal(); signal != 0) return kExitSignal + signal;
  if (!status.ok()) flight.WriteFailure(status);
  if (status.ok()) {
    Print(Severity::kInfo, "the job is over");
    return kExitDone;
  }
  Print(Severity::kError, status.message());
  events.Failed(status.message());
  return kExitFailed;
}

}  // namespace
}  // namespace capstan::cli

int main(int argc, char** argv) { return capstan::cli::Main(argc, argv); }
