#include "cli/launch/program_calls.h"

#include <utility>

#include "cli/run/address.h"
#include "cli/run/flight_recording.h"
#include "cli/run/job_keys.h"
#include "cli/run/trace_file.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/metrics_section.h"
#include "common/config/job_config.h"

namespace capstan::cli {
namespace {

std::string ServerName(std::uint32_t index) { return "server-" + std::to_string(index); }
std::string WorkerName(std::uint32_t index) { return "worker-" + std::to_string(index); }

}  // namespace

ProgramCalls::ProgramCalls(const JobConfig& config, const RunDirectory& directory, std::string binaries,
                           std::string trace, Plaintext plaintext, std::string keys)
    : config_(config),
      directory_(directory),
      binaries_(std::move(binaries)),
      trace_(std::move(trace)),
      plaintext_(plaintext),
      keys_(std::move(keys)) {}

ProgramCall ProgramCalls::Ours(const std::string& name, Role role, std::vector<std::string> arguments) const {
  const std::string program = role == Role::kWorker ? "capstan-worker" : "capstan-server";
  if (plaintext_ == Plaintext::kAllowed) arguments.emplace_back("--allow-plaintext");
  if (!keys_.empty()) arguments.insert(arguments.end(), {"--key-file", KeyFileFor(keys_, role, name)});
  return {name, binaries_ + "/" + program, std::move(arguments), directory_.LogOf(name), ProgramKind::kOurs, {}};
}

std::vector<std::string> ProgramCalls::TraceArguments(const std::string& name) const {
  if (trace_.empty()) return {};
  return {"--trace", TraceFileOf(trace_, name)};
}

ProgramCall ProgramCalls::Coordinator(const std::string& listen, RunBegin begin) const {
  // The launcher chooses the coordinator's addresses, which stay the same over restarts.
  std::vector<std::string> arguments = {directory_.path() + "/job.toml",
                                        "--coordinator",
                                        "--run-dir",
                                        directory_.path(),
                                        "--set",
                                        "cluster.coordinator=" + listen,
                                        "--metrics-listen",
                                        ChoosePort(config_.metrics.listen)};
  if (begin != RunBegin::kNew) arguments.push_back("--resume");
  if (begin == RunBegin::kRollBack) arguments.push_back("--accept-rollback");
  return Ours(kCoordinator, Role::kCoordinator, std::move(arguments));
}

// If the job file has a fixed port, each server gets ports of its own, counted up from that port.
std::vector<ProgramCall> ProgramCalls::Servers(const std::string& coordinator) const {
  std::vector<ProgramCall> calls;
  for (std::uint32_t i = 0; i < config_.cluster.servers; ++i) {
    const std::string listen = ShiftPort(config_.cluster.listen, i * config_.cluster.shards_per_server);
    std::vector<std::string> arguments = TraceArguments(ServerName(i));
    arguments.insert(arguments.begin(),
                     {directory_.path() + "/job.toml", "--index", std::to_string(i), "--run-dir", directory_.path(),
                      "--set", "cluster.coordinator=" + coordinator, "--set", "cluster.listen=" + listen,
                      "--metrics-listen", ShiftPort(config_.metrics.listen, 1 + i)});
    calls.push_back(Ours(ServerName(i), Role::kServer, std::move(arguments)));
  }
  return calls;
}

std::vector<ProgramCall> ProgramCalls::Workers(const std::string& coordinator) const {
  std::vector<ProgramCall> calls;
  for (std::uint32_t i = 0; i < config_.cluster.workers; ++i) {
    std::vector<std::string> arguments = TraceArguments(WorkerName(i));
    arguments.insert(
        arguments.begin(),
        {"--coordinator", coordinator, "--name", WorkerName(i), "--local-rank", std::to_string(i), "--data-root", "/",
         "--flight", FlightFolderOf(directory_.path()), "--join-seconds", std::to_string(config_.limits.join),
         "--metrics-listen", ShiftPort(config_.metrics.listen, 1 + config_.cluster.servers + i)});
    const MetricsSection& metrics = config_.metrics;
    for (const auto& [option, value] : {std::pair("--metrics-token-file", &metrics.token_file),
                                        {"--metrics-certificate", &metrics.certificate},
                                        {"--metrics-key", &metrics.key}}) {
      if (!value->empty()) arguments.insert(arguments.end(), {option, *value});
    }
    for (const std::string& host : metrics.hosts) arguments.insert(arguments.end(), {"--metrics-host", host});
    calls.push_back(Ours(WorkerName(i), Role::kWorker, std::move(arguments)));
  }
  return calls;
}

std::vector<ProgramCall> ProgramCalls::OwnPrograms(const OwnProgram& program, const std::string& coordinator) const {
  return Programs(program, {.coordinator = coordinator});
}

std::vector<ProgramCall> ProgramCalls::EarlyPrograms(const OwnProgram& program, const std::string& broker) const {
  return Programs(program, {.broker = broker});
}

std::vector<ProgramCall> ProgramCalls::Programs(const OwnProgram& program, WorkerPlace place) const {
  place.count = config_.cluster.workers;
  std::vector<ProgramCall> calls;
  for (std::uint32_t i = 0; i < place.count; ++i) {
    const std::string name = WorkerName(i);
    place.worker = name;
    place.index = i;
    place.key_file = keys_.empty() ? "" : KeyFileFor(keys_, Role::kWorker, name);
    calls.push_back({name,
                     program.path,
                     {program.words.begin() + 1, program.words.end()},
                     directory_.LogOf(name),
                     ProgramKind::kOwn,
                     EnvironmentOf(program, place)});
  }
  return calls;
}

}  // namespace capstan::cli
