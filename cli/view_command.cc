#include "cli/view_command.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/run/process.h"

namespace capstan::cli {
namespace {

constexpr std::array<const char*, 6> kCommands = {"status", "top", "logs", "plot", "metrics", "stop"};
constexpr char kJob[] = "RUN_DIR|ADDRESS";
constexpr char kJobHelp[] =
    "a run directory, or the address of a coordinator's pages, as HOST:PORT or https://HOST:PORT (default: the run "
    "below runs/ that is running, or else the newest)";
constexpr char kRunHelp[] = "a run directory (default: the run below runs/ that is running, or else the newest)";

void AddAccess(Command command, PagesAccess* access) {
  command.Add("--metrics-token-file", &access->token_file,
              "FILE with the token that the coordinator asks for (default: the job file's)");
  command.Add("--metrics-certificate", &access->certificate,
              "FILE with the certificate in PEM that the coordinator has to show (default: the job file's)");
}

void AddOutput(Command command, std::string* output, const std::string& help) {
  command.Add("-o,--output", output, help).OneOf({"table", "json"}).ShowDefault();
}

}  // namespace

ViewCommand::ViewCommand(Command app) : app_(app) {
  AddStatus();
  AddTop();
  AddLogs();
  AddPlot();
  AddMetrics();
  AddStop();
}

void ViewCommand::AddStatus() {
  Command command = app_.AddCommand("status", "Say how a run is.");
  command.Add(kJob, &status_.word, kJobHelp);
  AddAccess(command, &status_.access);
  AddOutput(command, &status_.output, "table or json");
}

void ViewCommand::AddTop() {
  Command command = app_.AddCommand("top", "Watch a job: progress, loss, workers, shards, events.");
  command.Add(kJob, &top_.word, kJobHelp);
  AddAccess(command, &top_.access);
  AddOutput(command, &top_.output, "table, or json: a line of JSON for each refresh");
  command.Add("--every", &top_.every_seconds, "seconds between two refreshes").InRange(0.1, 86400.0).ShowDefault();
  command.Add("--count", &top_.count,
              "end after so many refreshes (default: with the job; without a terminal after one, unless with -o json)");
  command
      .Add("--patience", &top_.patience_seconds,
           "for so many seconds a coordinator that does not answer is asked again")
      .InRange(1, 1'000'000)
      .ShowDefault();
}

void ViewCommand::AddLogs() {
  Command command = app_.AddCommand("logs", "Print the logs of a run's processes, in the order of time.");
  command.Add("RUN_DIR", &logs_.run_dir, kRunHelp);
  command.Add("NAME", &logs_.process, "only the process of this name, as worker-0; may also stand alone");
  command.AddFlag("-f,--follow", &logs_.follow, "go on with new lines, until the job ends");
  command.Add("-n,--lines", &logs_.lines, "only so many of the last lines of each log (default: all; with -f 10)");
  AddOutput(command, &logs_.output, "table, or json: an object for each line");
}

void ViewCommand::AddPlot() {
  Command command = app_.AddCommand("plot", "Draw a value over the steps of one or several runs.");
  command.AddAll("RUN_DIR", &plot_.runs, kRunHelp);
  command.Add("--key", &plot_.key, "which one: a key of metrics.jsonl, or metrics.NAME").ShowDefault();
  command.Add("--to", &plot_.to, "FILE.svg: write a picture, instead of drawing in the terminal");
}

void ViewCommand::AddMetrics() {
  Command command = app_.AddCommand("metrics", "Print the steps of a run as a table.");
  command.Add("RUN_DIR", &metrics_.run_dir, kRunHelp);
  command.Add("--to,-o,--output", &metrics_.format, "csv, or a line of JSON for each step: jsonl or json")
      .OneOf({"csv", "jsonl", "json"})
      .ShowDefault();
  command.Add("--keys", &metrics_.keys, "KEY,KEY,...: only these columns, in this order (default: all)");
}

void ViewCommand::AddStop() {
  Command command = app_.AddCommand("stop", "End a run as Ctrl-C does, with a last snapshot.");
  command.Add("RUN_DIR", &stopped_run_, "its directory (default: the one below runs/ where a job runs)");
  AddOutput(command, &stop_output_, "table or json");
}

bool ViewCommand::parsed() const {
  return std::any_of(kCommands.begin(), kCommands.end(), [this](const char* name) { return app_.chose(name); });
}

int ViewCommand::Run() {
  const int code = RunChosen();
  if ((std::fflush(stdout) == 0 && std::ferror(stdout) == 0) || errno == EPIPE) return code;  // EPIPE: the reader left
  Complain("capstan", std::string("the output cannot be written whole: ") + std::strerror(errno));
  return code == kExitDone ? kExitFailed : code;
}

int ViewCommand::RunChosen() {
  if (app_.chose("status")) return RunStatus(status_);
  if (app_.chose("top")) return RunTop(top_);
  if (app_.chose("logs")) return RunLogsCommand(logs_);
  if (app_.chose("plot")) return RunPlot(plot_);
  if (app_.chose("metrics")) return RunMetrics(metrics_);
  return RunStop(stopped_run_, stop_output_);
}

}  // namespace capstan::cli
