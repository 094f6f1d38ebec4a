#include "cli/launch_command.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "cli/launch/launcher.h"
#include "cli/new_job.h"
#include "cli/report/job_lines.h"
#include "common/job/cluster_section.h"
#include "common/job/data_section.h"
#include "common/job/job_section.h"
#include "common/job/model_section.h"
#include "common/job_config.h"
#include "common/messages/shard_reports.h"
#include "common/safetensors.h"
#include "common/utf8.h"
#include "worker/train/sample_text.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSamplePrompt = "\n";

int Fail(const std::string& message, int code) {
  Complain("capstan", message);
  return code;
}

std::string Count(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

Result<std::string> WriteSample(const JobConfig& config, const std::string& weights_path) {
  CAPSTAN_ASSIGN_OR_RETURN(const SafetensorsFile file, ReadSafetensors(weights_path));
  std::vector<float> weights(file.data.size() / sizeof(float));
  std::memcpy(weights.data(), file.data.data(), weights.size() * sizeof(float));
  train::SampleTextOptions options;
  options.seed = config.job.seed;
  return train::SampleText(config, weights, kSamplePrompt, options);
}

void ShowResult(const JobConfig& config, const RunDirectory& directory, const Progress& progress, double seconds,
                Screen* screen) {
  const std::string weights = directory.path() + "/final.safetensors";
  if (config.model.kind == ModelKind::kGpt && config.data.kind == DataKind::kText) {
    const Result<std::string> sample = WriteSample(config, weights);
    screen->Line(sample.ok() ? "a sample of what it writes:" : "no sample: " + sample.status().message());
    if (sample.ok()) std::printf("%s\n", Printable(*sample).c_str());
    std::fflush(stdout);
  }
  std::string done = "done: " + Count(progress.steps_done(), "step") + " in " + Duration(seconds);
  if (progress.steps_skipped() > 0) done += ", " + std::to_string(progress.steps_skipped()) + " of them skipped";
  screen->Line(done);
  for (const std::string& line : EndLines(progress, weights)) screen->Line(line);
  screen->Line("run directory: " + directory.path() + " (metrics.jsonl, logs/, job.toml)");
}

}  // namespace

namespace {

// The job file of a run that is resumed is the run directory's own unless another is given; its slots are what they
// were.
Result<JobConfig> LoadConfig(const LaunchArguments& arguments) {
  if (arguments.begin == RunBegin::kNew) {
    if (arguments.job_file.empty()) return Invalid("say which job: capstan launch JOB.toml");
    return LoadJobConfig(arguments.job_file, arguments.overrides);
  }
  const std::string own = arguments.run_dir + "/job.toml";
  if (std::error_code error; !fs::exists(own, error)) {
    return Invalid("the run directory " + arguments.run_dir + " holds no run that could be resumed");
  }
  CAPSTAN_ASSIGN_OR_RETURN(const JobConfig begun, LoadJobConfig(own));
  std::vector<std::string> overrides = arguments.overrides;
  overrides.insert(overrides.begin(), "job.slots=" + std::to_string(begun.job.slots));
  // Written down as what it was then: all of them.
  if (begun.cluster.min_workers == begun.cluster.workers) overrides.insert(overrides.begin(), "cluster.min_workers=0");
  CAPSTAN_ASSIGN_OR_RETURN(JobConfig now,
                           LoadJobConfig(arguments.job_file.empty() ? own : arguments.job_file, overrides));
  const std::string difference = DescribeDifference(begun, now);
  if (!difference.empty()) {
    return Invalid("this job cannot be continued with other settings, " + difference +
                   "; leave them as they were, or begin a new run");
  }
  return now;
}

}  // namespace

int RunLaunch(const LaunchArguments& arguments) {
  if (arguments.begin != RunBegin::kNew && arguments.run_dir.empty()) {
    return Fail("--resume goes on with a run: say which by --run-dir", kExitUsage);
  }
  Result<JobConfig> loaded = LoadConfig(arguments);
  if (!loaded.ok()) return Fail(loaded.status().message(), kExitUsage);
  EditableJobConfig config = *loaded;
  if (Status status = MakePathsAbsolute(&config.data); !status.ok()) return Fail(status.message(), kExitUsage);
  if (arguments.print_config) {
    std::fputs(PrintJobConfig(config).c_str(), stdout);
    return kExitDone;
  }
  PrepareProcess();
  StopSignals signals;
  const Result<RunDirectory> directory = RunDirectory::Take(arguments.run_dir, config.job.name, arguments.begin);
  if (!directory.ok()) return Fail(directory.status().message(), ExitCode(directory.status()));
  if (Status status = WriteFile(directory->path() + "/job.toml", PrintJobConfig(config)); !status.ok()) {
    return Fail(status.message(), kExitFailed);
  }
  Screen screen = Screen::OfStderr();
  screen.Line("job \"" + config.job.name + "\": " + SizeText(config) + ", " + Count(config.cluster.servers, "server") +
              ", " + Count(config.cluster.workers, "worker") + "; run directory " + directory->path());
  if (const std::string idle = IdleWorkersText(config); !idle.empty()) screen.Line("warning: " + idle);
  const auto start = std::chrono::steady_clock::now();
  Launcher launcher(config, *directory, OwnFolder(), {arguments.max_restarts, arguments.begin, arguments.trace},
                    &signals, &screen);
  const Status status = launcher.Run();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  screen.Settle();
  if (const int signal = signals.stop_signal(); signal != 0) {
    const std::string where = status.ok() ? "stopped" : status.message();
    return Fail(where + "\ncapstan: run directory: " + directory->path(), kExitSignal + signal);
  }
  if (!status.ok() && directory->Discard()) {
    return Fail(
        status.message() +
            "\ncapstan: the job failed before its first step; its run directory is removed (--run-dir keeps one)",
        kExitFailed);
  }
  if (!status.ok())
    return Fail(status.message() + "\ncapstan: the job failed; its logs are in " + directory->path() + "/logs",
                kExitFailed);
  ShowResult(config, *directory, launcher.progress(), seconds, &screen);
  return kExitDone;
}

}  // namespace capstan::cli
