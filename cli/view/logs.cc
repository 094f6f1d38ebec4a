#include "cli/view/logs.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <vector>

#include "cli/run/find_run.h"
#include "cli/run/print_json.h"
#include "cli/run/process.h"
#include "cli/terminal/columns.h"
#include "cli/terminal/terminal_look.h"
#include "cli/view/run_logs.h"
#include "common/base/utf8.h"
#include "common/config/suggestion.h"

namespace capstan::cli {
namespace {

constexpr int kFollowMs = 200;
constexpr std::size_t kFollowLines = 10;  // of each log, before new ones
constexpr std::size_t kTimeBytes = 13;    // of "13:05:59.250 "

struct Chosen {
  std::string run_dir, process;
};

Status NoProcess(const std::string& process, const std::string& run_dir, const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return Invalid("there is no log of a process \"" + process + "\" in " + run_dir + "/logs" +
                 DidYouMean(process, std::vector<std::string_view>(names.begin(), names.end())) +
                 (list.empty() ? "; there is none at all" : "; there are " + list));
}

Result<Chosen> Choose(const LogsArguments& arguments) {
  Chosen chosen{arguments.run_dir, arguments.process};
  std::error_code error;
  if (chosen.process.empty() && !chosen.run_dir.empty() && !std::filesystem::is_directory(chosen.run_dir, error)) {
    const Result<std::string> run = RunOrDefault("");
    if (!run.ok()) return Invalid("there is no run directory " + chosen.run_dir);
    chosen = {*run, chosen.run_dir};
  }
  CAPSTAN_ASSIGN_OR_RETURN(chosen.run_dir, RunOrDefault(chosen.run_dir));
  const std::vector<std::string> names = LoggedProcesses(chosen.run_dir);
  if (chosen.process.empty() && names.empty())
    return Invalid("there are no logs in " + chosen.run_dir + "/logs; processes that are started by hand print theirs");
  if (!chosen.process.empty() && std::find(names.begin(), names.end(), chosen.process) == names.end())
    return NoProcess(chosen.process, chosen.run_dir, names);
  return chosen;
}

// Prints lines of logs, in which control bytes are escaped.
class LinePrinter {
 public:
  LinePrinter(const Chosen& chosen, const std::string& output)
      : json_(output == "json"), colors_(LookOf(STDOUT_FILENO).colors) {
    if (!chosen.process.empty()) return;
    for (const std::string& name : LoggedProcesses(chosen.run_dir)) width_ = std::max(width_, ColumnsOf(name));
    names_ = true;
  }

  void Print(const std::string& process, const std::string& line) const {
    if (json_) {
      PrintJsonLine({{"process", process}, {"line", line}});
      return;
    }
    std::string text = Printable(line);
    if (colors_) {
      const std::size_t begin = TimeOfLine(text) ? kTimeBytes : 0;
      text = text.substr(0, begin) + Colored(text.substr(begin));
    }
    if (names_) std::printf("%s | ", PadToColumns(PrintableLine(process), std::max(width_, process.size())).c_str());
    std::printf("%s\n", text.c_str());
  }

 private:
  const bool json_, colors_;
  bool names_ = false;
  std::size_t width_ = 0;  // of the longest name
};

// Waits for the next look. Returns false where a signal has arrived, or nobody reads stdout any more.
bool Wait(StopSignals* signals) {
  std::array<pollfd, 2> fds = {pollfd{signals->signal_fd(), POLLIN, 0}, pollfd{STDOUT_FILENO, 0, 0}};
  poll(fds.data(), fds.size(), kFollowMs);
  return signals->stop_signal() == 0 && (fds[1].revents & (POLLERR | POLLHUP)) == 0;
}

int Follow(const Chosen& chosen, RunLogs* logs, const LinePrinter& printer) {
  StopSignals signals;
  const auto print = [&](const std::string& process, const std::string& line) { printer.Print(process, line); };
  for (;;) {
    const Result<int> holder = HolderOf(chosen.run_dir);  // before the look, which then has the last lines
    const bool ended = holder.ok() && *holder == 0;
    logs->TakeNew(print, ended);
    std::fflush(stdout);
    if (ended) {
      Complain("capstan", "no job runs in " + chosen.run_dir + ": there is nothing to follow");
      return kExitDone;
    }
    if (!Wait(&signals)) return signals.stop_signal() != 0 ? kExitSignal + signals.stop_signal() : kExitDone;
  }
}

}  // namespace

int RunLogsCommand(const LogsArguments& arguments) {
  const Result<Chosen> chosen = Choose(arguments);
  if (!chosen.ok()) {
    Complain("capstan", chosen.status().message());
    return kExitUsage;
  }
  const LinePrinter printer(*chosen, arguments.output);
  std::optional<std::size_t> last = arguments.lines;
  if (!last && arguments.follow) last = kFollowLines;
  RunLogs logs(chosen->run_dir, chosen->process, last);
  if (arguments.follow) return Follow(*chosen, &logs, printer);
  logs.TakeNew([&](const std::string& process, const std::string& line) { printer.Print(process, line); }, true);
  return kExitDone;
}

}  // namespace capstan::cli
