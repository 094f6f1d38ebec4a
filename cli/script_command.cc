#include "cli/script_command.h"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "cli/launch/program_calls.h"
#include "cli/launch/script_start.h"
#include "cli/launch_session.h"
#include "cli/run/job_sockets.h"
#include "cli/run/new_job.h"
#include "cli/run/process.h"
#include "cli/run/shell_words.h"
#include "common/base/process_address.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/worker_section.h"

namespace capstan::cli {
namespace {

Status CheckScript(const std::string& script) {
  std::error_code error;
  if (script.empty()) return Invalid("say which script: capstan run train.py");
  if (script.starts_with('-')) return Invalid("there is no option " + script + "; see capstan run --help");
  if (!std::filesystem::exists(script, error)) return Invalid("there is no script " + script);
  if (std::filesystem::is_directory(script, error)) return Invalid(script + " is a folder; name the script in it");
  if (script.ends_with(".py")) return {};
  return Invalid(script +
                 " is no Python script (its name does not end with .py). A program of another kind is a worker by the "
                 "client library, and needs a job file: capstan launch job.toml -- " +
                 ShellWords({script}));
}

// The job as far as it is known before the script runs.
struct Draft {
  JobConfig job;
  OwnProgram program;
};

Result<Draft> MakeDraft(ScriptArguments* arguments) {
  CAPSTAN_RETURN_IF_ERROR(CheckScript(arguments->job.script));
  const std::string& python = arguments->python.empty() ? arguments->default_python : arguments->python;
  arguments->job.command = {python, arguments->job.script};
  arguments->job.command.insert(arguments->job.command.end(), arguments->words.begin(), arguments->words.end());
  CAPSTAN_ASSIGN_OR_RETURN(JobConfig job, DraftOfScriptJob(arguments->job));
  CAPSTAN_ASSIGN_OR_RETURN(OwnProgram program, FindOwnProgram(job.worker.command, job, VariablesOf(environ)));
  return Draft{std::move(job), std::move(program)};
}

// The processes of the script, and the job that they wait for.
struct Begun {
  LaunchPlan plan;
  StartedScripts scripts;
};

Result<Begun> Begin(const ScriptArguments& arguments, Draft draft, const JobSockets& sockets, LaunchSession* session) {
  const RunDirectory& directory = session->directory();
  CAPSTAN_RETURN_IF_ERROR(AddPythonPackage(OwnFolder(), directory.path(), &draft.program));
  CAPSTAN_ASSIGN_OR_RETURN(ScriptBroker broker, ScriptBroker::Create(SocketPathOf(sockets.scripts())));
  const ProgramCalls calls(draft.job, directory, OwnFolder(), "", session->plaintext(), session->keys());
  std::vector<ProgramCall> early = calls.EarlyPrograms(draft.program, broker.path());
  session->screen()->Line("starting " + std::to_string(early.size()) + " of: " + ShellWords(draft.program.words));
  ScriptStart start({arguments.job.script, arguments.prepare_seconds, arguments.launch.max_restarts}, std::move(broker),
                    session->signals(), session->screen());
  CAPSTAN_ASSIGN_OR_RETURN(const ScriptFacts facts, start.Await(std::move(early)));
  CAPSTAN_ASSIGN_OR_RETURN(const JobConfig job, ScriptJob(arguments.job, facts));
  LaunchPlan plan;
  plan.config = job;
  CAPSTAN_RETURN_IF_ERROR(MakePathsAbsolute(&plan.config));
  plan.program = std::move(draft.program);
  plan.lines = DescribeScriptJob(arguments.job, facts, job);
  const std::string file = directory.path() + "/job.toml";
  plan.lines.push_back("kept in " + file + ", by which " + ShellWords({arguments.launch.capstan, "launch", file}) +
                       " runs it again");
  return Begun{std::move(plan), start.Take()};
}

}  // namespace

int RunScript(ScriptArguments arguments) {
  Result<Draft> draft = MakeDraft(&arguments);
  if (!draft.ok()) return FailLaunch(draft.status().message(), kExitUsage);
  PrepareProcess();
  LaunchSession session(arguments.launch);
  if (Status status = session.Check(draft->job); !status.ok()) return FailLaunch(status.message(), kExitUsage);
  if (Status status = session.Open(arguments.launch.run_dir, draft->job); !status.ok()) {
    return FailLaunch(status.message(), ExitCode(status));
  }
  const Result<JobSockets> sockets = JobSockets::Make(session.directory().path());
  if (!sockets.ok()) return session.FailEarly(sockets.status());
  Result<Begun> begun = Begin(arguments, std::move(draft).value(), *sockets, &session);
  const int code =
      begun.ok() ? session.Run(std::move(begun->plan), std::move(begun->scripts)) : session.FailEarly(begun.status());
  sockets->Remove();
  return code;
}

}  // namespace capstan::cli
