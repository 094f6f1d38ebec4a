#include "cli/launch_session.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include "cli/launch/last_words.h"
#include "cli/launch/launcher.h"
#include "cli/launch/resume.h"
#include "cli/report/job_lines.h"
#include "cli/run/go_on_file.h"
#include "cli/run/job_addresses.h"
#include "cli/run/job_keys.h"
#include "cli/run/job_transport.h"
#include "cli/trainer/built_in_model.h"
#include "common/base/durable_file.h"
#include "common/base/process_address.h"
#include "common/base/utf8.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/data_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/keys/key_file.h"

namespace capstan::cli {
namespace {

std::string Count(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
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

// A job without a number of steps ends with what its last snapshot has.
Status CheckOpenEnd(const JobConfig& config) {
  if (config.job.steps != kOpenEndedSteps) return {};
  if (config.model.built_in() || config.job.mode != Mode::kSync) {
    return Invalid("job.steps = " + std::to_string(kOpenEndedSteps) +
                   " stands for the end of the programs' loops, which only a job of mode \"sync\" with [model] kind = "
                   "\"client\" has; set a number of steps");
  }
  if (config.optimizer.kind == OptimizerKind::kExternal) {
    return Invalid(
        "this job ends with the loops of its programs, which run their own optimizer, and nobody would be left to give "
        "the last version: set a number of steps (capstan run --steps N, or --epochs N)");
  }
  if (config.snapshot.enabled()) return {};
  return Invalid(
      "this job ends with the loops of its programs, by its last snapshot, and [snapshot] has none: set a number of "
      "steps, or snapshot.every_seconds");
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

int FailLaunch(const std::string& message, int code) {
  Complain("capstan", message);
  return code;
}

LaunchSession::LaunchSession(const LaunchArguments& arguments)
    : arguments_(arguments),
      plaintext_(arguments.allow_plaintext ? Plaintext::kAllowed : Plaintext::kRefused),
      screen_(Screen::OfStderr(arguments.quiet ? Screen::Volume::kQuiet : Screen::Volume::kUsual)) {}

Status LaunchSession::Check(const JobConfig& config) const {
  const std::unique_ptr<JobTransport> transport = CreateJobTransport(config, plaintext_, "", {});
  CAPSTAN_RETURN_IF_ERROR(CheckOpenEnd(config));
  CAPSTAN_RETURN_IF_ERROR(transport->CheckLaunch());
  CAPSTAN_RETURN_IF_ERROR(CheckKeys(arguments_, config, *transport));
  return CheckMachine(config);
}

Status LaunchSession::Open(const std::string& run_dir, const JobConfig& config) {
  CAPSTAN_ASSIGN_OR_RETURN(RunDirectory directory, RunDirectory::Take(run_dir, config.job.name, arguments_.begin));
  directory_.emplace(std::move(directory));
  return MakeKeys(config);
}

Status LaunchSession::MakeKeys(const JobConfig& config) {
  keys_ = arguments_.keys;
  own_keys_ = keys_.empty() && CreateJobTransport(config, plaintext_, "", {})->needs_keys();
  if (!own_keys_) return {};
  keys_ = directory_->path() + "/keys";
  // Keys that are there are those of the same run, before.
  return ReadKeyFile(KeyFileIn(keys_, Role::kCoordinator)).ok() ? Status() : MakeJobKeys(keys_).status();
}

Status LaunchSession::Fill(LaunchPlan* plan) const {
  const std::string& run_dir = directory_->path();
  CAPSTAN_RETURN_IF_ERROR(WriteFileDurably(run_dir + "/job.toml", PrintJobConfig(plan->config)));
  CAPSTAN_RETURN_IF_ERROR(WriteGoOnCall(run_dir, GoOnCall(arguments_, run_dir)));
  return plan->program ? AddPythonPackage(OwnFolder(), run_dir, &*plan->program) : Status();
}

int LaunchSession::Run(LaunchPlan plan, std::optional<StartedScripts> scripts) {
  const JobConfig& config = plan.config;
  const RunDirectory& directory = *directory_;
  if (Status status = Fill(&plan); !status.ok()) return FailLaunch(status.message(), kExitFailed);
  for (const std::string& line : plan.lines) screen_.Line(line);
  screen_.Line("job \"" + config.job.name + "\": " + SizeText(config) + ", " + Count(config.cluster.servers, "server") +
               ", " + Count(config.cluster.workers, "worker") + "; run directory " + directory.path());
  if (const std::string idle = IdleWorkersText(config); !idle.empty()) screen_.Line("warning: " + idle);
  const auto start = std::chrono::steady_clock::now();
  const std::unique_ptr<JobTransport> transport = CreateJobTransport(config, plaintext_, "", {});
  const Result<std::string> wanted = transport->FindCoordinator(directory.path());
  if (!wanted.ok()) return FailLaunch(wanted.status().message(), kExitFailed);
  const ChosenAddress coordinator = ChooseCoordinator(*wanted, WithoutKey(ReadEndpoints(directory.path()).coordinator));
  if (!coordinator.line.empty()) screen_.Line(coordinator.line);
  Launcher launcher(config, directory, OwnFolder(),
                    {arguments_.max_restarts, arguments_.begin, arguments_.trace, coordinator.address, plan.program,
                     arguments_.end_seconds, plaintext_, keys_, false},
                    &signals_, &screen_);
  if (scripts) launcher.Adopt(*std::move(scripts));
  Outcome outcome;
  outcome.status = launcher.Run();
  outcome.done = launcher.job_done();
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  transport->Remove();
  const bool concludes = launcher.loops_ended() && signals_.stop_signal() == 0 && !outcome.done;
  const int code = concludes ? Conclude(plan, launcher.progress(), &outcome) : End(plan, launcher.progress(), outcome);
  if (own_keys_ && outcome.done) RemoveJobKeys(keys_);
  return code;
}

int LaunchSession::End(const LaunchPlan& plan, const Progress& progress, const Outcome& outcome) {
  const Status& status = outcome.status;
  screen_.Settle();
  const int signal = signals_.stop_signal();
  if (!status.ok() && signal == 0 && directory_->Discard()) {
    screen_.Complain("capstan", status.message() +
                                    "\ncapstan: the job failed before its first step; its run directory is "
                                    "removed (--run-dir keeps one)");
    return kExitFailed;
  }
  if (!status.ok() || (signal != 0 && !outcome.done)) {
    screen_.Complain("capstan", WhyItEnded(arguments_, directory_->path(), status, signals_.stop_count()));
    return signal != 0 ? kExitSignal + signal : kExitFailed;
  }
  ShowResult(plan.config, *directory_, progress, outcome.seconds, &screen_);
  return kExitDone;
}

int LaunchSession::Conclude(LaunchPlan plan, const Progress& progress, Outcome* outcome) {
  const std::uint64_t steps = progress.steps_done();
  if (steps == 0) {
    outcome->status = Invalid("the programs ended before the job's first step, so there is nothing to keep");
    return End(plan, progress, *outcome);
  }
  if (NewestSnapshotOf(directory_->path(), plan.config) != steps) return End(plan, progress, *outcome);
  plan.config.job.steps = steps;
  const std::string& run_dir = directory_->path();
  if (Status status = WriteFileDurably(run_dir + "/job.toml", PrintJobConfig(plan.config)); !status.ok()) {
    return FailLaunch(status.message(), kExitFailed);
  }
  const std::unique_ptr<JobTransport> transport = CreateJobTransport(plan.config, plaintext_, "", {});
  const Result<std::string> wanted = transport->FindCoordinator(run_dir);
  if (!wanted.ok()) return FailLaunch(wanted.status().message(), kExitFailed);
  const ChosenAddress coordinator = ChooseCoordinator(*wanted, WithoutKey(ReadEndpoints(run_dir).coordinator));
  Screen warnings = Screen::OfStderr(Screen::Volume::kQuiet);
  Launcher::Options options;
  options.max_restarts = arguments_.max_restarts;
  options.begin = RunBegin::kResume;
  options.coordinator = coordinator.address;
  options.plaintext = plaintext_;
  options.keys = keys_;
  options.concludes = true;
  Launcher launcher(plan.config, *directory_, OwnFolder(), std::move(options), &signals_, &warnings);
  outcome->status = launcher.Run();
  outcome->done = launcher.job_done();
  transport->Remove();
  return End(plan, launcher.progress(), *outcome);
}

int LaunchSession::FailEarly(const Status& status) {
  screen_.Settle();
  const int signal = signals_.stop_signal();
  if (own_keys_) RemoveJobKeys(keys_);
  const bool gone = directory_->Discard();
  screen_.Complain("capstan", status.message() + (gone ? "" : "\ncapstan: run directory: " + directory_->path()));
  return signal != 0 ? kExitSignal + signal : kExitFailed;
}

}  // namespace capstan::cli
