// capstan: the user's command: launches and stops jobs, inspects runs and their snapshots, and runs benchmarks.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench_command.h"
#include "cli/command_line.h"
#include "cli/command_words.h"
#include "cli/doctor_command.h"
#include "cli/explain_command.h"
#include "cli/flight_command.h"
#include "cli/keygen_command.h"
#include "cli/launch_command.h"
#include "cli/reference_command.h"
#include "cli/run/build_info.h"
#include "cli/run/process.h"
#include "cli/script_command.h"
#include "cli/snapshot_command.h"
#include "cli/view_command.h"
#include "common/config/suggestion.h"

namespace capstan::cli {
namespace {

// Options that `capstan launch` and `capstan run` have in common.
void DescribeRunning(Command command, LaunchArguments* arguments) {
  command
      .Add("--max-restarts", &arguments->max_restarts,
           "how often each process that is killed is started again within an hour; one more death ends the job")
      .ShowDefault();
  command.Add("--keys", &arguments->keys,
              "FOLDER with the job's key files, as capstan keygen makes it (default, where [security] transport is "
              "\"curve\": keys of this run, in its directory, until it ends)");
  DescribeAllowPlaintext(command, &arguments->allow_plaintext);
  command.Add("--trace", &arguments->trace,
              "FILE for what servers and workers did and when, for Perfetto: trace.json becomes "
              "trace.worker-0.json and so on, each written when its process ends");
  command
      .Add("--end-seconds", &arguments->end_seconds,
           "how long programs of your own may take to end by themselves after the job")
      .InRange(0.0, 1e9)
      .ShowDefault();
  command.AddFlag("-q,--quiet", &arguments->quiet, "say warnings and errors only");
}

Command DescribeRun(Command app, ScriptArguments* arguments) {
  Command run = app.AddCommand("run", "Train a PyTorch script's model on this machine, without a job file.");
  run.Add("SCRIPT.py", &arguments->job.script, "the script; all words behind it are its own arguments");
  run.Add("--servers", &arguments->job.servers, "server processes").InRange(1, 4096).ShowDefault();
  run.Add("--workers", &arguments->job.workers, "copies of the script").InRange(1, 4096).ShowDefault();
  run.Add("--slots", &arguments->job.slots,
          "shares of a global batch, on which the result's bits depend (default: as many as workers)")
      .InRange(1, 4096);
  const Option steps =
      run.Add("--steps", &arguments->job.steps, "updates of the weights (default: until the script's own loop ends)");
  run.Add("--epochs", &arguments->job.epochs, "passes over the prepared loader, in place of --steps").NotWith(steps);
  run.Add("--set", &arguments->job.overrides,
          "section.key=value: a value for a key of the job file, or several; it comes before all other options");
  run.Add("--run-dir", &arguments->launch.run_dir, "folder for what the run leaves behind (default: runs/NAME-TIME)");
  run.Add("--python", &arguments->python,
          "the interpreter of the script (default: the one that capstan is installed for, else python3)");
  run.Add("--prepare-seconds", &arguments->prepare_seconds, "how long the script may take to call prepare()")
      .InRange(0.1, 1e9)
      .ShowDefault();
  run.AddFlag("--model-from-script", &arguments->model_from_script,
              "model, optimizer and batch are the script's: so it is in any case");
  DescribeRunning(run, &arguments->launch);
  run.Footer(
      "The script calls capstan.torch.connect() and trainer.prepare(model, optimizer, loader). Optimizer and global "
      "batch "
      "of the job follow from these objects. The job is printed, and kept as job.toml in the run directory, from which "
      "capstan launch runs it again. An example: capstan run --servers 2 --workers 4 --slots 4 train.py --lr 0.1");
  return run;
}

Command DescribeLaunch(Command app, LaunchArguments* arguments) {
  Command launch = app.AddCommand("launch", "Run a whole job on this machine.");
  launch.Add("JOB.toml", &arguments->job_file, "the job file; with --resume the run directory's by default");
  launch.Add("--run-dir", &arguments->run_dir,
             "folder for what the run leaves behind (default: runs/NAME-TIME; with --resume the newest run)");
  launch.Add("--set", &arguments->overrides, "section.key=value: another value than the job file's, or several");
  DescribeResume(launch, "", &arguments->begin);
  DescribeRunning(launch, arguments);
  launch.AddFlag("--print-config", &arguments->print_config,
                 "print the job file with every default filled in, and end");
  launch.Footer(
      "\"-- PROGRAM ARGS\" behind all of these starts cluster.workers copies of a program of your own as the workers "
      "of a "
      "job with [model] kind = \"client\", with CAPSTAN_COORDINATOR (its address), CAPSTAN_WORKER (its name), "
      "CAPSTAN_INDEX "
      "(from 0) and CAPSTAN_INDEXES (how many) in its environment: capstan launch job.toml -- python3 train.py. The "
      "job "
      "file's worker.command does the same.");
  return launch;
}

Command DescribeBench(Command app, BenchArguments* arguments) {
  Command bench = app.AddCommand("bench", "Measure this machine and capstan on it.");
  bench.Add("NAME", &arguments->name, "the benchmark; without one: their list");
  bench.Add("-o,--output", &arguments->output, "table or json").OneOf({"table", "json"}).ShowDefault();
  bench.Add("--only", &arguments->only,
            "only the rows with this TEXT in their name, as gpt/1s1w; nothing else is measured");
  bench.AddFlag("--quick", &arguments->is_quick,
                "about a minute on 2 cores: fewer sizes and rounds; the last lines say what was left out");
  bench.Add("--python", &arguments->python,
            "train: the interpreter whose PyTorch it compares with, as VENV/bin/python; else /usr/bin/python3");
  return bench;
}

// Whether the words begin with commands that exist. If not, prints an error that suggests a command of a similar name.
bool AreCommands(const CommandFacts& program, const std::vector<std::string>& words) {
  const CommandFacts* command = &program;
  std::string path = program.name;
  for (const std::string& word : words) {
    if (command->commands.empty() || word.starts_with('-')) return true;
    const auto is_named = [&](const CommandFacts& below) { return below.name == word; };
    const auto next = std::find_if(command->commands.begin(), command->commands.end(), is_named);
    if (next == command->commands.end()) {
      const auto is_positional = [](const OptionFacts& option) { return option.names.empty(); };
      if (std::any_of(command->options.begin(), command->options.end(), is_positional))
        return true;  // such as a RUN_DIR
      std::vector<std::string_view> names;
      if (command == &program) names.push_back("help");
      for (const CommandFacts& below : command->commands) names.push_back(below.name);
      Complain("capstan", "no command of " + path + " is named \"" + word + "\"" + DidYouMean(word, names) + "\nTry '" +
                              path + " --help'.");
      return false;
    }
    path += " " + word;
    command = &*next;
  }
  return true;
}

// Removes "--" and all words after it from `words`. Returns those after it: the user's own program and its arguments.
std::vector<std::string> TakeProgram(std::vector<std::string>* words) {
  const auto dashes = std::find(words->begin(), words->end(), "--");
  if (dashes == words->end()) return {};
  std::vector<std::string> program(dashes + 1, words->end());
  words->erase(dashes, words->end());
  return program;
}

// Turns the command line "help" into "--help", and "help launch" into "launch --help".
void AskForHelp(std::vector<std::string>* words) {
  if (words->empty() || words->front() != "help") return;
  words->erase(words->begin());
  words->insert(words->begin() + (words->empty() ? 0 : 1), "--help");
}

// The wheel's program `capstan` names the interpreter that the wheel is installed for.
int RunRun(const char* capstan, ScriptArguments arguments) {
  arguments.launch.capstan = capstan;
  if (const char* python = std::getenv("CAPSTAN_PYTHON"); python != nullptr && *python != 0) {
    arguments.default_python = python;
  }
  return RunScript(std::move(arguments));
}

int Main(int argc, char** argv) {
  CommandLine line("Parameter-server training: launch jobs, keep what they learned, measure.", "capstan");
  Command app = line.root();
  app.AddVersion(VersionLine("capstan"));
  app.AllowOneCommand();
  LaunchArguments launch_arguments;
  ScriptArguments run_arguments;
  BenchArguments bench_arguments;
  const Command run = DescribeRun(app, &run_arguments);
  const Command launch = DescribeLaunch(app, &launch_arguments);
  ViewCommand view(app);
  Command keygen = app.AddCommand("keygen", "Make keys for the processes of a job on several machines.");
  KeygenArguments keys;
  keygen.Add("FOLDER", &keys.folder, "where to put them; it is made, for this user only").Required();
  keygen
      .Add(
          "--servers", &keys.servers,
          "how many servers get a key of their own, which is for the shards of one --index only (default: one for all)")
      .InRange(1, 1000);
  keygen
      .Add("--workers", &keys.workers,
           "how many workers get a key of their own, which is for one name only: worker-0 and so on (default: one for "
           "all)")
      .InRange(1, 4096);
  const Option add = keygen.Add("--add", &keys.add, "ROLE of one more key, for a FOLDER that has keys already")
                         .OneOf({"coordinator", "server", "worker", "reader", "admin"});
  keygen
      .Add("--name", &keys.name,
           "NAME of that key in the list and of its file, NAME.key; a worker's is also the only name under which that "
           "worker may join; for a server its --index (default: the role)")
      .OnlyWith(add);
  keygen.Add("-o,--output", &keys.output, "table or json").OneOf({"table", "json"}).ShowDefault();
  keygen.Add("--revoke", &keys.revoke, "NAME of a key in the list, which is to be of no use from now on").NotWith(add);
  SnapshotCommand snapshot(app);
  FlightCommand flight(app);
  const Command bench = DescribeBench(app, &bench_arguments);
  DoctorArguments doctor_arguments;
  const Command doctor = DescribeDoctor(app, &doctor_arguments);
  ExplainArguments explain_arguments;
  const Command explain = DescribeExplain(app, &explain_arguments);
  const ReferenceCommands reference(app);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "run") run_arguments.words = TakeScriptArguments(run.Facts(), &words);
  const std::vector<std::string> program = TakeProgram(&words);
  AskForHelp(&words);
  if (!AreCommands(app.Facts(), words)) return kExitUsage;
  if (const std::optional<int> code = line.Parse(words)) return *code;
  launch_arguments.capstan = argv[0];
  launch_arguments.program = program;
  if (launch.parsed()) return RunLaunch(launch_arguments);
  if (run.parsed()) return RunRun(argv[0], std::move(run_arguments));
  if (view.parsed()) return view.Run();
  if (keygen.parsed()) return RunKeygen(keys);
  if (snapshot.parsed()) return snapshot.Run();
  if (doctor.parsed()) return RunDoctor(doctor_arguments);
  if (explain.parsed()) return RunExplain(explain_arguments);
  if (reference.parsed()) return reference.Run();
  if (flight.parsed()) return flight.Run();
  if (bench.parsed()) return RunBench(bench_arguments, bench::AllBenches());
  std::fputs(app.Help().c_str(), stderr);
  return kExitUsage;
}

}  // namespace
}  // namespace capstan::cli

// Libraries throw where there is too little memory, or where a folder changes while it is read.
int main(int argc, char** argv) {
  try {
    return capstan::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    capstan::cli::Complain("capstan", "no more memory was given; use a machine, or a limit, with more of it");
  } catch (const std::exception& error) {
    capstan::cli::Complain("capstan", std::string("a library gave up: ") + error.what());
  }
  return capstan::cli::kExitFailed;
}
