#include "cli/launch_command.h"

#include <cstdio>
#include <optional>
#include <utility>

#include "cli/launch/last_words.h"
#include "cli/launch/plan.h"
#include "cli/launch/resume.h"
#include "cli/launch_session.h"
#include "cli/run/process.h"
#include "common/base/utf8.h"
#include "common/config/job_config.h"

namespace capstan::cli {

int RunLaunch(const LaunchArguments& arguments) {
  Result<LaunchPlan> plan = MakePlan(arguments);
  if (!plan.ok()) return FailLaunch(plan.status().message(), kExitUsage);
  if (arguments.print_config) {
    std::fputs(PrintJobConfig(plan->config).c_str(), stdout);
    return kExitDone;
  }
  if (arguments.begin != RunBegin::kNew) {
    if (const auto steps = StepsIfDone(plan->run_dir, plan->config)) {
      std::fprintf(stderr, "%s\n", Printable(DoneAlready(arguments, plan->run_dir, *steps)).c_str());
      return kExitDone;
    }
  }
  PrepareProcess();
  LaunchSession session(arguments);
  if (Status status = session.Check(plan->config); !status.ok()) return FailLaunch(status.message(), kExitUsage);
  if (Status status = session.Open(plan->run_dir, plan->config); !status.ok()) {
    return FailLaunch(status.message(), ExitCode(status));
  }
  return session.Run(std::move(plan).value(), std::nullopt);
}

}  // namespace capstan::cli
