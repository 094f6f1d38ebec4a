// capstan-server: the coordinator of a job, or one of its servers with all its shards.
#include <cstdio>

#include "cli/address.h"
#include "cli/build_info.h"
#include "cli/command_line.h"
#include "cli/server_processes.h"
#include "common/job/cluster_section.h"
#include "common/job_config.h"

namespace capstan::cli {
namespace {

struct Arguments {
  std::string job_file, run_dir, metrics_listen, trace;
  std::vector<std::string> overrides;
  int index = -1, events_fd = -1;
  bool coordinator = false, print_config = false;
  RunBegin begin = RunBegin::kNew;
};

void Describe(CLI::App* app, Arguments* arguments) {
  app->set_version_flag("--version", VersionLine("capstan-server"));
  app->add_option("JOB.toml", arguments->job_file, "the job file, the same for all processes")->required();
  auto* role = app->add_option_group("role");
  role->add_flag("--coordinator", arguments->coordinator, "be the job's coordinator");
  role->add_option("--index", arguments->index, "be server number INDEX, from 0")->check(CLI::Range(0, 4095));
  role->require_option(0, 1);
  app->add_option("--run-dir", arguments->run_dir, "folder for what the run leaves behind");
  DescribeResume(app, "coordinator: ", &arguments->begin);
  app->add_option("--set", arguments->overrides, "section.key=value: another value than the job file's")
      ->allow_extra_args(false);
  app->add_option("--metrics-listen", arguments->metrics_listen, "HOST:PORT of /metrics (default: metrics.listen)");
  app->add_option("--trace", arguments->trace,
                  "server: file for what its shards did and when, for Perfetto; written at the end");
  app->add_flag("--print-config", arguments->print_config, "print the job file with every default filled in, and end");
  app->add_option("--events-fd", arguments->events_fd, "where to report to a launcher")->group("");
}

int Fail(const std::string& message) {
  std::fprintf(stderr, "capstan-server: %s\n", message.c_str());
  return kExitUsage;
}

int Main(int argc, char** argv) {
  CLI::App app("Runs the coordinator of a job, or one of its servers.", "capstan-server");
  Arguments arguments;
  Describe(&app, &arguments);
  if (const std::optional<int> code = ParseCommandLine(&app, argc, argv)) return *code;

  const EventWriter events(arguments.events_fd);
  Result<JobConfig> config = LoadJobConfig(arguments.job_file, arguments.overrides);
  if (!config.ok()) return Fail(config.status().message());
  if (arguments.print_config) {
    std::fputs(PrintJobConfig(*config).c_str(), stdout);
    return kExitDone;
  }
  ServerProcessOptions options{std::move(*config), arguments.run_dir, arguments.metrics_listen, arguments.trace};
  options.begin = arguments.begin;
  PrepareProcess();
  if (arguments.coordinator && !arguments.trace.empty()) {
    return Fail("--trace " + arguments.trace + ": a coordinator keeps no trace; give it to servers and workers");
  }
  if (arguments.coordinator) return RunCoordinatorProcess(options, events);
  if (arguments.index < 0) return Fail("say what to be: --coordinator, or --index I for a server");
  const std::uint32_t servers = options.config.cluster.servers;
  options.index = static_cast<std::uint32_t>(arguments.index);
  if (options.index >= servers) {
    return Fail("--index " + std::to_string(options.index) + ": the job has " + std::to_string(servers) +
                (servers == 1 ? " server" : " servers") + " (cluster.servers), numbered from 0");
  }
  if (PortOf(options.config.cluster.coordinator) == 0) {
    return Fail(
        "cluster.coordinator is \"" + options.config.cluster.coordinator +
        "\": a server cannot know the port; write one into the job file, or --set cluster.coordinator=HOST:PORT");
  }
  return RunServerProcess(options, events);
}

}  // namespace
}  // namespace capstan::cli

int main(int argc, char** argv) { return capstan::cli::Main(argc, argv); }
