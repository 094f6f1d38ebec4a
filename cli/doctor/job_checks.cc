#include "cli/doctor/job_checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cli/report/job_lines.h"
#include "cli/run/address.h"
#include "cli/run/job_transport.h"
#include "cli/run/new_job.h"
#include "cli/trainer/built_in_model.h"
#include "common/base/free_memory.h"
#include "common/base/process_address.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/worker_section.h"

namespace capstan::cli {
namespace {

std::string Plural(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

Finding ReadJob(const std::string& file, const std::vector<std::string>& overrides,
                std::optional<EditableJobConfig>* config) {
  const Result<JobConfig> read = LoadJobConfig(file, overrides);
  if (!read.ok()) return Problem("job file", read.status().message(), "correct the job file");
  EditableJobConfig job = *read;
  if (Status status = MakePathsAbsolute(&job); !status.ok()) {
    return Problem("job file", status.message(), "correct the job file");
  }
  config->emplace(job);
  const std::string text = "job \"" + job.name() + "\": " + SizeText(job) + ", " +
                           Plural(job.cluster.servers, "server") + ", " + Plural(job.cluster.workers, "worker");
  const std::string idle = IdleWorkersText(job);
  return idle.empty() ? Good("job file", text) : Warning("job file", text, idle);
}

Finding CheckNeeds(const JobConfig& config, std::uint64_t* snapshot_bytes) {
  *snapshot_bytes = 0;
  const Result<JobNeeds> needs = NeedsOfJob(config);
  if (needs.status().code() == Code::kUnsupported && !config.model.built_in()) {
    return Good("job memory",
                "the job's workers are programs of your own, so how much memory it needs is not known "
                "before they declare their model");
  }
  if (!needs.ok()) return Problem("job data", needs.status().message(), "capstan launch would end with this error");
  *snapshot_bytes = needs->snapshot_bytes;
  if (!needs->fit.ok()) return Problem("job memory", needs->fit.message(), "capstan launch would end with this error");
  return Good("job memory", "the job's data can be read, and all of its processes fit into this machine's memory: " +
                                MemoryText(needs->bytes) + " together" + needs->by_role);
}

Finding CheckThreads(const JobConfig& config, const ProcessorFacts& processor) {
  const double cores = std::min(static_cast<double>(processor.cores), processor.quota_cores.value_or(processor.cores));
  const std::uint64_t each = std::max(config.worker.threads, 1U);
  const std::uint64_t threads = config.cluster.workers * each;
  std::array<char, 32> have{};
  std::snprintf(have.data(), have.size(), "%.3g", cores);
  const std::string text = "the workers compute with " + Plural(threads, "thread") + " together (" +
                           Plural(config.cluster.workers, "worker") + " of " + Plural(each, "thread") + "), and " +
                           have.data() + (cores == 1 ? " core is" : " cores are") + " here";
  if (!config.model.built_in()) return Good("job threads", "the job's workers are programs of your own");
  if (static_cast<double>(threads) > std::ceil(cores)) {
    return Warning("job threads", text, "they would wait for each other: lower worker.threads or cluster.workers");
  }
  return Good("job threads", text);
}

Finding CheckAddresses(const JobConfig& config) {
  const std::unique_ptr<JobTransport> transport = CreateJobTransport(config, Plaintext::kRefused, "", {});
  if (Status status = transport->CheckLaunch(); !status.ok()) {
    return Problem("job addresses", status.message(), "capstan launch would end with this error");
  }
  const std::string& address = config.cluster.coordinator;
  if (address == kAutoAddress || IsLocalAddress(address)) {
    return Good("job addresses", "the job's processes find each other on this machine, by Unix sockets");
  }
  const Result<std::string> numeric = NumericHost(WithoutKey(address));
  if (!numeric.ok()) return Problem("job addresses", numeric.status().message(), "correct cluster.coordinator");
  if (!IsFree(*numeric)) {
    return Problem("job addresses",
                   "nothing can listen at cluster.coordinator, " + WithoutKey(address) +
                       ": another process has it, or it is no address of this machine",
                   "stop that process, or choose another address; to look at a job that runs there, give "
                   "--coordinator " +
                       address);
  }
  return Good("job addresses", "the coordinator can listen at " + WithoutKey(address));
}

Finding CheckDevice(const DeviceFacts& facts, const JobConfig* config) {
  const bool is_needed =
      config != nullptr && config->model.built_in() && config->worker.device.kind == DeviceKind::kCuda;
  std::string text = facts.driver.empty() ? "no NVIDIA driver is loaded"
                                          : "NVIDIA's driver " + facts.driver + " with " + Plural(facts.count, "GPU");
  std::string problem = !facts.plugin_problem.empty() ? facts.plugin_problem : facts.use_problem;
  if (problem.empty() && facts.driver.empty())
    problem = "the plug-in is here, and there is nothing for it to compute on";
  if (problem.empty()) return Good("gpu", text + "; capstan's workers can compute on it");
  if (!is_needed && facts.driver.empty()) return Good("gpu", text + ", so workers compute on the processor");
  text += "; " + problem;
  if (is_needed) {
    return Problem("gpu", text,
                   "the job says worker.device = \"cuda\": install the driver and capstan's plug-in, or "
                   "add --set worker.device=cpu");
  }
  return Warning("gpu", text, "workers cannot use this GPU until that is mended");
}

}  // namespace capstan::cli
