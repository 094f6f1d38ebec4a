#include "cli/launch/plan.h"

#include <unistd.h>

#include <utility>

#include "cli/launch/resume.h"
#include "cli/run/new_job.h"
#include "common/config/job/worker_section.h"

namespace capstan::cli {

Result<LaunchPlan> MakePlan(const LaunchArguments& arguments) {
  LaunchPlan plan;
  plan.run_dir = arguments.run_dir;
  if (arguments.begin == RunBegin::kNew) {
    if (arguments.job_file.empty()) return Invalid("say which job: capstan launch JOB.toml");
    CAPSTAN_ASSIGN_OR_RETURN(plan.config, LoadJobConfig(arguments.job_file, arguments.overrides));
  } else {
    CAPSTAN_ASSIGN_OR_RETURN(ResumedJob resumed,
                             LoadResumedJob(arguments.job_file, arguments.run_dir, arguments.overrides));
    plan.config = resumed.config;
    plan.run_dir = std::move(resumed.run_dir);
    plan.lines = std::move(resumed.lines);
  }
  CAPSTAN_RETURN_IF_ERROR(MakePathsAbsolute(&plan.config));
  const std::vector<std::string>& words = arguments.program.empty() ? plan.config.worker.command : arguments.program;
  if (words.empty() || arguments.print_config) return plan;
  CAPSTAN_ASSIGN_OR_RETURN(plan.program, FindOwnProgram(words, plan.config, VariablesOf(environ)));
  return plan;
}

}  // namespace capstan::cli
