#include "cli/launch_command.h"

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "cli/launch/last_words.h"
#include "cli/launch/launcher.h"
#include "cli/launch/own_program.h"
#include "cli/launch/plan.h"
#include "cli/launch/resume.h"
#include "cli/report/job_lines.h"
#include "cli/run/go_on_file.h"
#include "cli/run/job_addresses.h"
#include "cli/run/job_keys.h"
#include "cli/run/job_transport.h"
#include "cli/run/new_job.h"
#include "cli/trainer/built_in_model.h"
#include "common/base/durable_file.h"
#include "common/base/process_address.h"
#include "common/base/utf8.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/data_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job_config.h"
#include "common/keys/key_file.h"
#include "common/wire/messages/shard_reports.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

int Fail(const std::string& message, int code) {
  Complain("capstan", message);
  return code;
}

std::string Count(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// Writes what a run directory has from the beginning.
Status FillRunDirectory(const LaunchArguments& arguments, const std::string& run_dir, LaunchPlan* plan) {
  CAPSTAN_RETURN_IF_ERROR(WriteFileDurably(run_dir + "/job.toml", PrintJobConfig(plan->config)));
  CAPSTAN_RETURN_IF_ERROR(WriteGoOnCall(run_dir, GoOnCall(arguments, run_dir)));
  return plan->program ? AddPythonPackage(OwnFolder(), run_dir, &*plan->program) : Status();
}

// Whether the keys that the arguments name, or that a run would make for itself, fit the job.
Status CheckKeys(const LaunchArguments& arguments, const JobConfig& config, const JobTransport& transport) {
  if (!transport.needs_keys()) {
    if (arguments.keys.empty()) return {};
    return Invalid("--keys is for a job with keys; write [security] transport = \"curve\", or leave --keys out");
  }
  if (!arguments.keys.empty()) return ReadKeyFile(KeyFileIn(arguments.keys, Role::kCoordinator)).status();
  if (KeyInAddress(config.cluster.coordinator).empty()) return {};
  return Invalid(
      "cluster.coordinator has a key (after #): say where its key file is with --keys FOLDER, or leave the key "
      "out, and the run makes keys of its own");
}

// Returns the folder of the job's key files, after making keys for this run if it has none; empty: the job needs none.
Result<std::string> MakeRunKeys(const LaunchArguments& arguments, const JobTransport& transport,
                                const std::string& run_dir) {
  if (!transport.needs_keys() || !arguments.keys.empty()) return arguments.keys;
  const std::string folder = run_dir + "/keys";
  if (!ReadKeyFile(KeyFileIn(folder, Role::kCoordinator)).ok()) {  // else they are those of the same run, before
    CAPSTAN_RETURN_IF_ERROR(MakeJobKeys(folder).status());
  }
  return folder;
}

void ShowResult(const JobConfig& config, const RunDirectory& directory, const Progress& progress, double seconds,
                Screen* screen) {
  const std::string weights = directory.path() + "/final.safetensors";
  if (config.model.kind == ModelKind::kGpt && config.data.kind == DataKind::kText) {
    const Result<std::string> sample = SampleOfJob(config, weights);
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

int RunLaunch(const LaunchArguments& arguments) {
  Result<LaunchPlan> plan = MakePlan(arguments);
  if (!plan.ok()) return Fail(plan.status().message(), kExitUsage);
  EditableJobConfig config = plan->config;
  if (arguments.print_config) {
    std::fputs(PrintJobConfig(config).c_str(), stdout);
    return kExitDone;
  }
  if (arguments.begin != RunBegin::kNew) {
    if (const auto steps = StepsIfDone(plan->run_dir, config)) {
      std::fprintf(stderr, "%s\n", Printable(DoneAlready(arguments, plan->run_dir, *steps)).c_str());
      return kExitDone;
    }
  }
  const Plaintext plaintext = arguments.allow_plaintext ? Plaintext::kAllowed : Plaintext::kRefused;
  const std::unique_ptr<JobTransport> transport = CreateJobTransport(config, plaintext, "", {});
  if (Status status = transport->CheckLaunch(); !status.ok()) return Fail(status.message(), kExitUsage);
  if (Status status = CheckKeys(arguments, config, *transport); !status.ok()) return Fail(status.message(), kExitUsage);
  if (Status status = CheckMachine(config); !status.ok()) return Fail(status.message(), kExitUsage);
  PrepareProcess();
  StopSignals signals;
  const Result<RunDirectory> directory = RunDirectory::Take(plan->run_dir, config.job.name, arguments.begin);
  if (!directory.ok()) return Fail(directory.status().message(), ExitCode(directory.status()));
  if (Status status = FillRunDirectory(arguments, directory->path(), &*plan); !status.ok()) {
    return Fail(status.message(), kExitFailed);
  }
  Screen screen = Screen::OfStderr(arguments.quiet ? Screen::Volume::kQuiet : Screen::Volume::kUsual);
  for (const std::string& line : plan->lines) screen.Line(line);
  screen.Line("job \"" + config.job.name + "\": " + SizeText(config) + ", " + Count(config.cluster.servers, "server") +
              ", " + Count(config.cluster.workers, "worker") + "; run directory " + directory->path());
  if (const std::string idle = IdleWorkersText(config); !idle.empty()) screen.Line("warning: " + idle);
  const auto start = std::chrono::steady_clock::now();
  const Result<std::string> wanted = transport->FindCoordinator(directory->path());
  if (!wanted.ok()) return Fail(wanted.status().message(), kExitFailed);
  const ChosenAddress coordinator =
      ChooseCoordinator(*wanted, WithoutKey(ReadEndpoints(directory->path()).coordinator));
  if (!coordinator.line.empty()) screen.Line(coordinator.line);
  const Result<std::string> keys = MakeRunKeys(arguments, *transport, directory->path());
  if (!keys.ok()) return Fail(keys.status().message(), kExitFailed);
  Launcher launcher(config, *directory, OwnFolder(),
                    {arguments.max_restarts, arguments.begin, arguments.trace, coordinator.address, plan->program,
                     arguments.end_seconds, plaintext, *keys},
                    &signals, &screen);
  const Status status = launcher.Run();
  transport->Remove();
  if (transport->needs_keys() && arguments.keys.empty() && launcher.job_done()) RemoveJobKeys(*keys);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  screen.Settle();
  const int signal = signals.stop_signal();
  if (!status.ok() && signal == 0 && directory->Discard()) {
    screen.Complain("capstan", status.message() +
                                   "\ncapstan: the job failed before its first step; its run directory is "
                                   "removed (--run-dir keeps one)");
    return kExitFailed;
  }
  if (!status.ok() || (signal != 0 && !launcher.job_done())) {
    screen.Complain("capstan", WhyItEnded(arguments, directory->path(), status, signals.stop_count()));
    return signal != 0 ? kExitSignal + signal : kExitFailed;
  }
  ShowResult(config, *directory, launcher.progress(), seconds, &screen);
  return kExitDone;
}

}  // namespace capstan::cli
