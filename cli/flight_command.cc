#include "cli/flight_command.h"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "cli/flight/flight_lines.h"
#include "cli/flight/flight_request.h"
#include "cli/run/find_run.h"
#include "cli/run/process.h"
#include "common/base/utf8.h"

namespace capstan::cli {
namespace {

int FailFlight(const Status& status) {
  Complain("capstan", status.message());
  return ExitCode(status);
}

// Reads "10s", "500ms", "2m" or "1.5", which is in seconds.
Result<double> ReadDuration(const std::string& text) {
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(static_cast<const char*>(parsed.ptr), text.data() + text.size());
  const double factor = unit.empty() || unit == "s" ? 1
                        : unit == "ms"              ? 1e-3
                        : unit == "m"               ? 60
                        : unit == "h"               ? 3600
                                                    : 0;
  if (parsed.ec == std::errc() && factor > 0 && number >= 0 && number <= 1e9) return number * factor;
  return Invalid("--last " + text + ": this is no time; write 10s, 500ms, 2m or 1h");
}

}  // namespace

FlightCommand::FlightCommand(Command app)
    : flight_(app.AddCommand("flight", "Have the processes of a run write down their newest events, and show them.")) {
  flight_.AllowOneCommand();
  flight_.Add("RUN", &run_dir_, "its directory (default: the one under runs/ where a job runs, or the newest)");
  flight_.Add("--wait", &wait_seconds_, "how many seconds to wait for the files").InRange(0.0, 600.0).ShowDefault();
  Command show = flight_.AddCommand("show", "Print the events of all processes in the order of time.");
  show.Add("PATH", &paths_, "a run directory, or files (default: the run as above)");
  show.Add("--process", &filter_.processes, "only of this process or thread, as worker-0 or shard-1; may be repeated");
  show.Add("--kind", &filter_.kinds, "only this kind of event or message, as waits or Reset; may be repeated");
  show.Add("--last", &last_, "only the end, as 10s, 500ms or 2m");
  show.Add("-o,--output", &output_, "text or json").OneOf({"text", "json"}).ShowDefault();
}

int FlightCommand::Run() { return flight_.chose("show") ? Show() : Request(); }

int FlightCommand::Request() const {
  const Result<std::string> run = RunOrDefault(run_dir_);
  if (!run.ok()) return FailFlight(run.status());
  const Result<FlightAnswers> answers = RequestFlights(*run, wait_seconds_);
  if (!answers.ok()) return FailFlight(answers.status());
  for (const std::string& file : answers->files) std::printf("%s\n", PrintableLine(file).c_str());
  for (const std::string& line : answers->missing) Complain("capstan", line);
  if (answers->files.empty() && answers->missing.empty()) {
    return FailFlight(Refused("no process of " + *run +
                              " runs on this machine; what they wrote before: capstan flight show " + *run));
  }
  return answers->missing.empty() ? kExitDone : kExitFailed;
}

Result<std::vector<std::string>> FlightCommand::FindFiles() const {
  std::vector<std::string> files;
  std::vector<std::string> paths = paths_;
  if (paths.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(std::string run, RunOrDefault(""));
    Complain("capstan", "of " + run);
    paths.push_back(std::move(run));
  }
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    const std::vector<std::string> found = FlightFilesOf(path);
    if (found.empty())
      return Invalid(path + " has no files of a flight recorder; have them written: capstan flight " + path);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

int FlightCommand::Show() {
  for (const std::string& kind : filter_.kinds) {
    if (const Status status = CheckKind(kind); !status.ok()) return FailFlight(status);
  }
  if (!last_.empty()) {
    const Result<double> seconds = ReadDuration(last_);
    if (!seconds.ok()) return FailFlight(seconds.status());
    filter_.last_seconds = *seconds;
  }
  const Result<std::vector<std::string>> files = FindFiles();
  if (!files.ok()) return FailFlight(files.status());
  std::vector<FlightProcess> processes;
  bool all = true;
  for (const std::string& file : *files) {
    Result<FlightProcess> process = ReadFlightFile(file);
    if (!process.ok()) Complain("capstan", process.status().message());
    // A process that was killed has an empty file, and the others' files say more.
    all = all && (process.ok() || process.status().code() == Code::kBusy);
    if (process.ok()) processes.push_back(std::move(*process));
  }
  if (processes.empty()) return FailFlight(Refused("none of these files has events"));
  FlightHistory history = MergeFlights(std::move(processes));
  const FlightSummary summary{FindLastHeard(history), FindOpenWaits(history)};
  Filter(filter_, &history);
  if (output_ == "json") {
    std::printf("%s\n", JsonOf(history, summary).c_str());
  } else {
    for (const std::string& line : LinesOf(history, summary)) std::printf("%s\n", line.c_str());
  }
  return all ? kExitDone : kExitFailed;
}

}  // namespace capstan::cli
