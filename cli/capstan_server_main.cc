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

void Describe(Command app, Arguments* arguments) {
  app.AddVersion(VersionLine("capstan-server"));
  app.Add("JOB.toml", &arguments->job_file, "the job file, the same for all processes").Required();
  Command role = app.AddChoice("role");
  role.AddFlag("--coordinator", &arguments->coordinator, "be the job's coordinator");
  role.Add("--index", &arguments->index, "be server number INDEX, from 0").InRange(0, 4095);
  app.Add("--run-dir", &arguments->run_dir, "folder for what the run leaves behind");
  DescribeResume(app, "coordinator: ", &arguments->begin);
  app.Add("--set", &arguments->overrides, "section.key=value: another value than the job file's");
  app.Add("--metrics-listen", &arguments->metrics_listen, "HOST:PORT of /metrics (default: metrics.listen)");
  app.Add("--trace", &arguments->trace,
          "server: file for what its shards did and when, for Perfetto; written at the end");
  app.AddFlag("--print-config", &arguments->print_config, "print the job file with every default filled in, and end");
  app.Add("--events-fd", &arguments->events_fd, "where to report to a launcher").Hide();
}

int Fail(const std::string& message) {
  Complain("capstan-server", message);
  return kExitUsage;
}

int Main(int argc, char** argv) {
  CommandLine line("Runs the coordinator of a job, or one of its servers.", "capstan-server");
  Arguments arguments;
  Describe(line.root(), &arguments);
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;

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
