// capstan-server: runs the coordinator of a job, or one of the job's servers with all shards of that server.
#include <cstdio>
#include <utility>

#include "cli/run/exposure.h"
#include "cli/run/flight_recording.h"
#include "cli/run/job_request.h"
#include "cli/server_arguments.h"
#include "cli/server_processes.h"
#include "common/base/process_address.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job_config.h"

namespace capstan::cli {
namespace {

int Fail(const std::string& message, int code = kExitUsage) {
  Complain("capstan-server", message);
  return code;
}

Plaintext PlaintextOf(const ServerArguments& arguments) {
  return arguments.allow_plaintext ? Plaintext::kAllowed : Plaintext::kRefused;
}

// Reads the job file or, with --join, asks the coordinator for it. The coordinator's address is then the one given to
// --join, even if the file has another address.
Result<JobConfig> LoadConfig(const ServerArguments& arguments, StopSignals* signals) {
  if (arguments.join.empty()) {
    if (arguments.job_file.empty()) return Invalid("say which job: JOB.toml, or for a server --join ADDRESS");
    return LoadJobConfig(arguments.job_file, arguments.overrides);
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::string coordinator, ReadProcessAddress("--join", arguments.join));
  CAPSTAN_RETURN_IF_ERROR(CheckExposure("--join", coordinator, PlaintextOf(arguments)));
  std::shared_ptr<const KeyPair> keys;
  if (!KeyInAddress(coordinator).empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(keys, LoadKeys(KeyFileOf(arguments.key_file)));
  }
  const JobRequest request{coordinator, "server-" + std::to_string(arguments.index), arguments.join_seconds, keys};
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, RequestJobFile(request, signals));
  std::vector<std::string> overrides = {"cluster.advertise=\"\""};  // the file's value is the coordinator's
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  overrides.push_back("cluster.coordinator=" + coordinator);
  return ParseJobConfig(text, "the coordinator's job file", overrides);
}

int RunServer(ServerProcessOptions options, int index, const EventWriter& events) {
  const std::uint32_t servers = options.config.cluster.servers;
  options.index = static_cast<std::uint32_t>(index);
  if (options.index >= servers) {
    return Fail("--index " + std::to_string(options.index) + ": the job has " + std::to_string(servers) +
                (servers == 1 ? " server" : " servers") + " (cluster.servers), numbered from 0");
  }
  if (!IsProcessAddress(options.config.cluster.coordinator)) {
    return Fail(
        "cluster.coordinator is \"" + options.config.cluster.coordinator +
        "\": a server cannot know where that is; take the address that the coordinator says: --join ADDRESS instead "
        "of the job file, or --set cluster.coordinator=ADDRESS");
  }
  return RunServerProcess(options, events);
}

int Main(int argc, char** argv) {
  ServerArguments arguments;
  CommandLine line = ServerCommandLine(&arguments);
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;

  const EventWriter events(arguments.events_fd);
  PrepareProcess();
  BlockFlightSignal();
  RaiseOpenFilesLimit(kServerFilesMax);
  if (!arguments.join.empty() && arguments.index < 0) {
    return Fail("--join " + arguments.join + " is of a server: say which by --index I");
  }
  std::optional<StopSignals> signals;
  if (!arguments.join.empty()) signals.emplace();
  Result<JobConfig> config = LoadConfig(arguments, signals ? &*signals : nullptr);
  if (!config.ok()) {
    if (signals && signals->stop_signal() != 0) return kExitSignal + signals->stop_signal();
    return Fail(config.status().message(), arguments.join.empty() ? kExitUsage : ExitCode(config.status()));
  }
  signals.reset();
  if (arguments.print_config) {
    std::fputs(PrintJobConfig(*config).c_str(), stdout);
    return kExitDone;
  }
  ServerProcessOptions options{std::move(*config), arguments.run_dir, arguments.metrics_listen, arguments.trace};
  options.begin = arguments.begin;
  options.plaintext = PlaintextOf(arguments);
  options.key_file = KeyFileOf(arguments.key_file);
  if (arguments.coordinator && !arguments.trace.empty()) {
    return Fail("--trace " + arguments.trace + ": a coordinator keeps no trace; give it to servers and workers");
  }
  if (arguments.coordinator) return RunCoordinatorProcess(options, events);
  if (arguments.index < 0) return Fail("say what to be: --coordinator, or --index I for a server");
  return RunServer(std::move(options), arguments.index, events);
}

}  // namespace
}  // namespace capstan::cli

int main(int argc, char** argv) { return capstan::cli::Main(argc, argv); }
