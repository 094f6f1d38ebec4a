// capstan: the command for people: launches jobs and measures.
#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/bench_command.h"
#include "cli/build_info.h"
#include "cli/command_line.h"
#include "cli/launch_command.h"
#include "cli/process.h"
#include "common/suggestion.h"

namespace capstan::cli {
namespace {

CLI::App* DescribeLaunch(CLI::App* app, LaunchArguments* arguments) {
  CLI::App* launch = app->add_subcommand("launch", "Run a whole job on this machine.");
  launch->add_option("JOB.toml", arguments->job_file, "the job file; with --resume the run directory's by default");
  launch->add_option("--run-dir", arguments->run_dir,
                     "folder for what the run leaves behind (default: runs/NAME-TIME)");
  launch->add_option("--set", arguments->overrides, "section.key=value: another value than the job file's")
      ->allow_extra_args(false);
  launch->add_option("--max-restarts", arguments->max_restarts,
                     "how often processes that are killed are started again, all together")
      ->capture_default_str();
  launch->add_flag("--resume", arguments->resume, "go on with the job of --run-dir from its newest snapshot");
  launch->add_flag("--print-config", arguments->print_config,
                   "print the job file with every default filled in, and end");
  return launch;
}

CLI::App* DescribeBench(CLI::App* app, BenchArguments* arguments) {
  CLI::App* bench = app->add_subcommand("bench", "Measure this machine and capstan on it.");
  bench->add_option("NAME", arguments->name, "the benchmark; without one: their list");
  bench->add_option("-o,--output", arguments->output, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  return bench;
}

int Main(int argc, char** argv) {
  CLI::App app("Parameter-server training: launch jobs, measure.", "capstan");
  app.set_version_flag("--version", VersionLine("capstan"));
  app.require_subcommand(0, 1);
  LaunchArguments launch_arguments;
  BenchArguments bench_arguments;
  const CLI::App* launch = DescribeLaunch(&app, &launch_arguments);
  const CLI::App* bench = DescribeBench(&app, &bench_arguments);
  constexpr std::array<std::string_view, 2> kCommands = {"launch", "bench"};
  const std::string_view word = argc > 1 ? argv[1] : "-";
  if (!word.starts_with('-') && std::find(kCommands.begin(), kCommands.end(), word) == kCommands.end()) {
    std::fprintf(stderr, "capstan: no command is named \"%s\"%s\nTry 'capstan --help'.\n", argv[1],
                 DidYouMean(word, kCommands).c_str());
    return kExitUsage;
  }
  if (const std::optional<int> code = ParseCommandLine(&app, argc, argv)) return *code;
  if (launch->parsed()) return RunLaunch(launch_arguments);
  if (bench->parsed()) return RunBench(bench_arguments, AllBenches());
  std::fputs(app.help().c_str(), stderr);
  return kExitUsage;
}

}  // namespace
}  // namespace capstan::cli

int main(int argc, char** argv) { return capstan::cli::Main(argc, argv); }
