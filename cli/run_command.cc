#include "cli/run_command.h"

#include <signal.h>

#include <nlohmann/json.hpp>
#include <array>
#include <cstdio>
#include <filesystem>

#include "cli/launch/resume.h"
#include "cli/run/exposure.h"
#include "cli/run/find_run.h"
#include "cli/run/go_on_file.h"
#include "cli/run/http_get.h"
#include "cli/run/job_addresses.h"
#include "cli/run/process.h"
#include "cli/run/run_directory.h"
#include "common/base/file_lock.h"
#include "common/base/utf8.h"
#include "common/config/job/metrics_section.h"
#include "common/config/job_config.h"

namespace capstan::cli {
namespace {

using nlohmann::json;

constexpr int kStopSeconds = 120;  // a last snapshot may take more than half of this
constexpr int kReportEverySeconds = 5;

int Fail(const Status& status, int code) {
  std::fprintf(stderr, "capstan: %s\n", Printable(status.message()).c_str());
  return code;
}

void Print(const std::string& line) { std::printf("%s\n", Printable(line).c_str()); }

Result<std::string> Find(const std::string& run_dir) {
  if (!run_dir.empty()) {
    if (std::error_code error; std::filesystem::is_directory(run_dir, error)) return run_dir;
    return Invalid("there is no run directory " + run_dir);
  }
  Result<std::string> running = RunningRun();
  return running.ok() ? running : NewestRun();
}

std::string TextOf(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string LossText(const json& loss) {
  if (!loss.is_number()) return TextOf(loss);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", loss.get<double>());
  return text.data();
}

// Asks a coordinator for its job's state. Returns a text such as "step 120 of 600, loss 2.13, workers: 2, running".
Result<std::string> StateOf(const std::string& address, const MetricsSection& section) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string body, HttpGet(address, "/api/v1/status", section));
  const json status = json::parse(body, nullptr, false);
  if (!status.is_object() || !status.contains("state")) return Unreachable(address + " is no coordinator");
  std::string line;
  if (status.contains("step") && status.contains("steps")) {
    line += "step " + TextOf(status["step"]) + " of " + TextOf(status["steps"]) + ", ";
  }
  if (status.contains("loss")) line += "loss " + LossText(status["loss"]) + ", ";
  if (status.contains("worker_count")) line += "workers: " + TextOf(status["worker_count"]) + ", ";
  if (status.contains("transport") && status["transport"] == kNotProtected) line += TextOf(status["transport"]) + ", ";
  return line + TextOf(status.contains("waiting") ? status["waiting"] : status["state"]);
}

// Describes the state of a run that no process holds.
std::string StateAtRest(const std::string& run) {
  const Result<JobConfig> config = LoadJobConfig(run + "/job.toml");
  if (!config.ok()) return "not running";
  const auto steps = StepsIfDone(run, *config);
  if (steps) return "done, " + std::to_string(*steps) + " steps; weights: " + run + "/final.safetensors";
  return "not running; " + HowToGoOn(run);
}

// Waits until the process that holds the run has ended. Returns false if it does not end in time.
bool AwaitEnd(const std::string& run, int holder) {
  for (int waited = 0; waited < kStopSeconds; waited += kReportEverySeconds) {
    if (FileLock::Acquire(run + "/lock", kReportEverySeconds).ok()) return true;
    Print("waiting " + std::to_string(waited + kReportEverySeconds) + " s for process " + std::to_string(holder) +
          " to end; giving up after " + std::to_string(kStopSeconds) + " s");
    std::fflush(stdout);
  }
  return false;
}

}  // namespace

int RunStatus(const std::string& run_dir) {
  PrepareProcess();  // OpenSSL writes to a connection that may be broken
  const Result<std::string> run = Find(run_dir);
  if (!run.ok()) return Fail(run.status(), kExitUsage);
  const Result<int> holder = HolderOf(*run);
  if (!holder.ok()) return Fail(holder.status(), kExitFailed);
  if (*holder == 0) {
    Print(*run + ": " + StateAtRest(*run));
    return kExitDone;
  }
  const Endpoints endpoints = ReadEndpoints(*run);
  const auto metrics = endpoints.metrics.find("coordinator");
  if (metrics == endpoints.metrics.end()) {
    Print(*run + ": starting (process " + std::to_string(*holder) + ")");
    return kExitDone;
  }
  const Result<JobConfig> config = LoadJobConfig(*run + "/job.toml");
  if (!config.ok()) return Fail(config.status(), kExitFailed);
  const Result<std::string> state = StateOf(metrics->second, config->metrics);
  if (state.status().code() == Code::kInvalid) return Fail(state.status(), kExitFailed);
  if (!state.ok()) {
    return Fail(
        Unreachable(*run + ": process " + std::to_string(*holder) +
                    " works in it, and its coordinator does not answer (it hangs, or is being started again): " +
                    state.status().message()),
        kExitFailed);
  }
  const std::string scheme = config->metrics.certificate.empty() ? "http://" : "https://";
  Print(*run + ": " + *state + "; " + scheme + metrics->second + "/");
  return kExitDone;
}

int RunStop(const std::string& run_dir) {
  const Result<std::string> run = run_dir.empty() ? RunningRun() : Find(run_dir);
  if (!run.ok()) return Fail(run.status(), kExitUsage);
  const Result<int> holder = HolderOf(*run);
  if (!holder.ok()) return Fail(holder.status(), kExitFailed);
  if (*holder == 0) return Fail(Invalid("no job runs in " + *run), kExitUsage);
  const std::string process = "process " + std::to_string(*holder);
  if (kill(*holder, SIGINT) != 0) {
    return Fail(Refused(process + ", which has " + *run +
                        ", cannot be told to stop: it is another user's, or has ended just now"),
                kExitFailed);
  }
  Print("stopping " + *run + " (" + process + "): it takes a last snapshot");
  std::fflush(stdout);
  if (!AwaitEnd(*run, *holder)) {
    return Fail(Timeout("it has not ended after " + std::to_string(kStopSeconds) + " s"), kExitFailed);
  }
  Print(*run + ": " + StateAtRest(*run));
  return kExitDone;
}

}  // namespace capstan::cli
