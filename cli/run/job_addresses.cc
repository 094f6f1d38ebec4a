#include "cli/run/job_addresses.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/run/address.h"
#include "cli/run/run_directory.h"
#include "common/base/durable_file.h"
#include "common/base/file_text.h"
#include "common/base/host_port.h"
#include "common/base/process_address.h"

namespace capstan::cli {
namespace {

using nlohmann::ordered_json;

// A process of the job. A server is one process with all its shards.
struct Process {
  std::string role, name;
  std::vector<std::string> addresses;
  std::string metrics;  // empty: no metrics
};

std::string Print(const ordered_json& json) { return json.dump(2, ' ', false, ordered_json::error_handler_t::replace); }

std::vector<Process> ProcessesOf(const std::string& coordinator, const std::string& metrics,
                                 const server::Roster& members, std::uint32_t shards_per_server) {
  std::vector<Process> processes = {{"coordinator", "coordinator", {coordinator}, metrics}};
  for (const server::Roster::Shard& shard : members.shards) {
    const std::string name = "server-" + std::to_string(shard.index / shards_per_server);
    if (processes.back().name != name) processes.push_back({"server", name, {}, shard.metrics});
    processes.back().addresses.push_back(AddressOf(shard.endpoint));
  }
  for (const server::Roster::Worker& worker : members.workers) {
    processes.push_back({"worker", worker.name, {}, worker.metrics});
  }
  return processes;
}

}  // namespace

JobAddresses::JobAddresses(std::string job, std::uint32_t shards_per_server)
    : job_(std::move(job)), shards_per_server_(shards_per_server) {}

Status JobAddresses::Begin(const std::string& run_dir, const std::string& coordinator, const std::string& metrics) {
  return state_.With([&](State& state) {
    state.run_dir = run_dir;
    state.coordinator = coordinator;
    state.metrics = metrics;
    return Write(&state);
  });
}

Status JobAddresses::SetMembers(const server::Roster& members) {
  return state_.With([&](State& state) {
    state.members = members;
    return state.run_dir.empty() ? Status() : Write(&state);
  });
}

Status JobAddresses::WriteAgain() {
  return state_.With([&](State& state) { return state.unwritten ? Write(&state) : Status(); });
}

Status JobAddresses::Write(State* written) const {
  const State& state = *written;
  ordered_json shards = ordered_json::array(), metrics = ordered_json::object(), list = ordered_json::array();
  for (const server::Roster::Shard& shard : state.members.shards) shards.push_back(AddressOf(shard.endpoint));
  for (const Process& process : ProcessesOf(state.coordinator, state.metrics, state.members, shards_per_server_)) {
    ordered_json entry = {{"role", process.role}, {"name", process.name}};
    if (!process.addresses.empty()) entry["addresses"] = process.addresses;
    if (!process.metrics.empty()) {
      entry["metrics"] = UrlOf(process.metrics) + "/metrics";
      if (!metrics.contains(process.name))
        metrics[process.name] = WithoutHttps(process.metrics);  // the server comes first: a worker may have its name
    }
    list.push_back(std::move(entry));
  }
  const ordered_json all = {{"job", job_},
                            {"coordinator", state.coordinator},
                            {"shards", std::move(shards)},
                            {"metrics", std::move(metrics)},
                            {"processes", std::move(list)}};
  const Status status = WriteFileDurably(state.run_dir + "/endpoints.json", Print(all) + "\n");
  written->unwritten = !status.ok();
  return status;
}

std::string JobAddresses::HttpSd() const {
  return state_.With([&](const State& state) {
    const bool one_machine = IsLoopback(MachineOf(state.coordinator));
    ordered_json groups = ordered_json::array();
    for (const Process& process : ProcessesOf(state.coordinator, state.metrics, state.members, shards_per_server_)) {
      const std::string address(WithoutHttps(process.metrics));
      if (address.empty() || (!one_machine && IsLoopback(HostOf(address)))) continue;
      ordered_json labels = {{"job", job_}, {"role", process.role}, {"name", process.name}};
      if (address != process.metrics) labels["__scheme__"] = "https";
      groups.push_back({{"targets", ordered_json::array({address})}, {"labels", std::move(labels)}});
    }
    return Print(groups);
  });
}

Endpoints ReadEndpoints(const std::string& run_dir) {
  Endpoints endpoints;
  constexpr std::size_t kMost = std::size_t{16} << 20;
  const Result<std::string> text = ReadFileText(run_dir + "/endpoints.json", kMost);
  if (!text.ok()) return endpoints;
  const nlohmann::json object = nlohmann::json::parse(*text, nullptr, false);
  if (!object.is_object()) return endpoints;
  if (const auto found = object.find("coordinator"); found != object.end() && found->is_string()) {
    endpoints.coordinator = found->get<std::string>();
  }
  const auto metrics = object.find("metrics");
  if (metrics == object.end() || !metrics->is_object()) return endpoints;
  for (const auto& [process, address] : metrics->items()) {
    if (address.is_string()) endpoints.metrics[process] = address.get<std::string>();
  }
  return endpoints;
}

std::optional<std::string> LastCoordinator(const std::string& run_dir) {
  std::string last = WithoutKey(ReadEndpoints(run_dir).coordinator);
  if (!IsHostPort(last)) return std::nullopt;
  return last;
}

}  // namespace capstan::cli
