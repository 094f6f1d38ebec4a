// capstan: the command for people: launches jobs, looks at what they keep, and measures.
#include <algorithm>
#include <array>
#include <cstdio>
#include <span>

#include "cli/bench_command.h"
#include "cli/build_info.h"
#include "cli/command_line.h"
#include "cli/launch_command.h"
#include "cli/process.h"
#include "cli/snapshot_command.h"
#include "common/suggestion.h"

namespace capstan::cli {
namespace {

Command DescribeLaunch(Command app, LaunchArguments* arguments) {
  Command launch = app.AddCommand("launch", "Run a whole job on this machine.");
  launch.Add("JOB.toml", &arguments->job_file, "the job file; with --resume the run directory's by default");
  launch.Add("--run-dir", &arguments->run_dir, "folder for what the run leaves behind (default: runs/NAME-TIME)");
  launch.Add("--set", &arguments->overrides, "section.key=value: another value than the job file's");
  launch
      .Add("--max-restarts", &arguments->max_restarts,
           "how often processes that are killed are started again, all together")
      .ShowDefault();
  DescribeResume(launch, "", &arguments->begin);
  launch.Add("--trace", &arguments->trace,
             "FILE for what servers and workers did and when, for Perfetto: trace.json becomes "
             "trace.worker-0.json and so on, each written when its process ends");
  launch.AddFlag("--print-config", &arguments->print_config,
                 "print the job file with every default filled in, and end");
  return launch;
}

Command DescribeBench(Command app, BenchArguments* arguments) {
  Command bench = app.AddCommand("bench", "Measure this machine and capstan on it.");
  bench.Add("NAME", &arguments->name, "the benchmark; without one: their list");
  bench.Add("-o,--output", &arguments->output, "table or json").OneOf({"table", "json"}).ShowDefault();
  bench.Add("--only", &arguments->only, "train: the figures with this TEXT in their name, as gpt/1s1w");
  bench.Add("--python", &arguments->python,
            "train: the interpreter whose PyTorch it compares with, as VENV/bin/python; else /usr/bin/python3");
  return bench;
}

// Whether `word` is an option, or one of `commands`; otherwise says what was probably meant.
bool IsCommand(std::string_view word, std::span<const std::string_view> commands, const std::string& program) {
  if (word.starts_with('-') || std::find(commands.begin(), commands.end(), word) != commands.end()) return true;
  Complain("capstan", "no command of " + program + " is named \"" + std::string(word) + "\"" +
                          DidYouMean(word, commands) + "\nTry '" + program + " --help'.");
  return false;
}

int Main(int argc, char** argv) {
  CommandLine line("Parameter-server training: launch jobs, keep what they learned, measure.", "capstan");
  Command app = line.root();
  app.AddVersion(VersionLine("capstan"));
  app.AllowOneCommand();
  LaunchArguments launch_arguments;
  BenchArguments bench_arguments;
  const Command launch = DescribeLaunch(app, &launch_arguments);
  const Command bench = DescribeBench(app, &bench_arguments);
  const SnapshotCommand snapshot(app);
  constexpr std::array<std::string_view, 3> kCommands = {"launch", "snapshot", "bench"};
  const std::string_view word = argc > 1 ? argv[1] : "-", second = argc > 2 ? argv[2] : "-";
  if (!IsCommand(word, kCommands, "capstan")) return kExitUsage;
  if (word == "snapshot" && !IsCommand(second, SnapshotCommand::kCommands, "capstan snapshot")) return kExitUsage;
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (launch.parsed()) return RunLaunch(launch_arguments);
  if (snapshot.parsed()) return snapshot.Run();
  if (bench.parsed()) return RunBench(bench_arguments, bench::AllBenches());
  std::fputs(app.Help().c_str(), stderr);
  return kExitUsage;
}

}  // namespace
}  // namespace capstan::cli

int main(int argc, char** argv) { return capstan::cli::Main(argc, argv); }
