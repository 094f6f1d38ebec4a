#include "cli/explain/explanations.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>

#include "cli/run/process.h"
#include "common/base/status.h"

namespace capstan::cli {
namespace {

struct CodeText {
  Code code;
  const char *meaning, *causes, *advice;
};

constexpr std::array<CodeText, 8> kCodes = {{
    {Code::kInvalid, "A call, a file or an option is wrong. The same call can never succeed.",
     "A key of the job file that does not exist or is out of its range, data that do not fit the model, a call in the "
     "wrong order, an address that is none, a key file that others may read.",
     "Read the message: it names the place, the value and what is wanted. Correct it and start again."},
    {Code::kBusy, "Something is short at the moment, and the same call may succeed later.",
     "A full disk, a full queue to a process that is slow, or no memory or thread for the client.",
     "Make room or wait. Servers and the coordinator try again by themselves; a program of your own calls again."},
    {Code::kStale, "The call was for a past state of the job. Nothing is wrong.",
     "A worker or a server was lost or joined, so slots were assigned again, or the step was completed without this "
     "worker. A slow worker gets this code often.",
     "Leave the loop over the round's slots and ask for the next work. In Python, Client.work() does that by itself."},
    {Code::kTimeout, "A deadline has passed.",
     "No coordinator answered within limits.join or --join-seconds; workers are missing (cluster.min_workers); the job "
     "stood still for limits.stall; a barrier that one process did not reach.",
     "The message says who was waited for. Look at that process and its log; raise the limit if it was only slow. "
     "capstan doctor --coordinator ADDRESS tests the way to a coordinator."},
    {Code::kUnreachable, "The other side does not answer, or the disk fails.",
     "A process has ended, a machine is down, a firewall drops the connection, an address is wrong, or a read or write "
     "of a file fails for another reason than a full disk.",
     "The message names the address or the file. Check that the process runs (capstan status), cluster.listen and "
     "cluster.advertise, the firewall, and the disk (capstan doctor)."},
    {Code::kCorrupt, "Bytes do not match their checksum or their format.",
     "A file that was cut off or changed, a disk or a memory that fails, a file of another format than [data] kind "
     "says, or parts of a run directory from different times.",
     "Bring the file back from a copy. capstan snapshot verify reads every snapshot of a run; --resume takes the "
     "newest "
     "whole one. If it happens again, test the machine's memory and disk."},
    {Code::kUnsupported, "This build or this machine cannot do it.",
     "worker.device = \"cuda\" without the plug-in or a driver, a build without the trainer or without NCCL, or a word "
     "of the job file that is not built yet.",
     "The message says what is missing and what to set instead. capstan doctor lists what this build and machine "
     "have."},
    {Code::kRefused, "The other side refuses, and would refuse again. Do not retry.",
     "The job has failed or was stopped, the key is not in the allow list or is for another role, another process of "
     "that name has taken over, the build or the data differ from those of the other workers, or an address that other "
     "machines reach is to be used without keys.",
     "Read the message; the coordinator's log has the same refusal with more details. Correct the cause and start the "
     "process again."},
}};

struct ExitText {
  const char *id, *meaning, *causes, *advice;
};

constexpr std::array<ExitText, 5> kExits = {{
    {"exit-0", "Done.", "The job, or the command, did all that was asked.", "Nothing."},
    {"exit-1", "Failed.",
     "The job or the command began, and could not be completed. capstan doctor also ends so when something would fail, "
     "and capstan snapshot verify when a snapshot is damaged.",
     "The last line on stderr says why. A job that has a snapshot goes on with capstan launch --resume."},
    {"exit-2", "Wrong use: the command line or the job file is wrong, and nothing was begun.",
     "An unknown option, command or key, a value out of its range, or a run directory that does not fit.",
     "The message names it; the option --help lists all options."},
    {"exit-126", "The program could not be run.", "The file is not executable, or is no program for this machine.",
     "Check its permissions (chmod +x), and that it was built for this processor."},
    {"exit-127", "The program was not found.",
     "capstan-server or capstan-worker is not in the folder of capstan, or the program behind \"--\" is not in PATH.",
     "Install capstan as a whole, or write the path of your program."},
}};

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// Returns the code's names in C, C++ and Python, which all follow from one word.
std::vector<std::string> NamesOf(Code code) {
  const std::string word = CodeName(code);
  std::string upper = word, title = word;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  title.front() = upper.front();
  return {"CAPSTAN_" + upper, "Code::k" + title, "capstan." + title};
}

Explanation Rewound() {
  return {"rewound",
          {"capstan.Rewound"},
          "The job went back to an earlier step, and the samples of this process's loop cannot.",
          "A server was lost, and the job goes on from a snapshot, while a script reads its samples from an iterator.",
          "Start the process again: it takes part from the job's present step. capstan launch does so by itself."};
}

// Explains the exit code of a process that a signal ended.
Explanation OfSignal(int signal) {
  const char* const name = sigabbrev_np(signal);
  Explanation explanation{"exit-" + std::to_string(kExitSignal + signal), {}, {}, {}, {}};
  explanation.meaning =
      "Ended by signal " + std::to_string(signal) + (name == nullptr ? "" : ", SIG" + std::string(name)) + ".";
  switch (signal) {
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
      explanation.causes = "Ctrl-C, capstan stop, a scheduler's time limit, or a terminal that was closed.";
      explanation.advice =
          "Nothing is wrong: the job took a last snapshot. capstan launch --resume goes on from there.";
      break;
    case SIGKILL:
      explanation.causes =
          "kill -9, or the kernel, because memory ran out (dmesg and the control group's memory.events "
          "say so).";
      explanation.advice =
          "If memory ran out: capstan doctor JOB.toml says how much the job needs here. --resume goes "
          "on from the newest snapshot.";
      break;
    case SIGILL:
      explanation.causes = "A processor without AVX2, FMA and BMI2.";
      explanation.advice = "capstan doctor says whether the processor has them; use another machine.";
      break;
    default:
      explanation.causes = "A bug of capstan, of a library or of your program, or memory that fails.";
      explanation.advice =
          "Keep the process's log in RUN_DIR/logs, and a core file if there is one (ulimit -c "
          "unlimited), and report it.";
  }
  return explanation;
}

std::optional<int> NumberOf(std::string_view text) {
  int number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::vector<Explanation> AllExplanations() {
  std::vector<Explanation> all;
  for (const CodeText& text : kCodes) {
    all.push_back({CodeName(text.code), NamesOf(text.code), text.meaning, text.causes, text.advice});
  }
  all.push_back(Rewound());
  for (const ExitText& text : kExits) all.push_back({text.id, {}, text.meaning, text.causes, text.advice});
  for (const int signal : {SIGINT, SIGILL, SIGABRT, SIGKILL, SIGSEGV, SIGTERM}) all.push_back(OfSignal(signal));
  return all;
}

std::optional<Explanation> FindExplanation(std::string_view text) {
  std::string word = Lower(text.substr(0, std::min(text.find_first_of(": "), text.size())));
  if (text.starts_with("Code::") || text.starts_with("capstan::")) word = Lower(text);
  if (word.starts_with("capstan.errors.")) word = "capstan." + word.substr(15);  // as a traceback has it
  if (word.starts_with("exit-")) word = word.substr(5);
  if (const std::optional<int> number = NumberOf(word)) {
    if (*number > kExitSignal && *number < kExitSignal + NSIG) return OfSignal(*number - kExitSignal);
    word = "exit-" + word;
  }
  for (const Explanation& explanation : AllExplanations()) {
    if (explanation.id == word) return explanation;
    for (const std::string& name : explanation.names) {
      const std::string lower = Lower(name);
      if (lower == word || "capstan::" + lower == word || (lower.starts_with("code::") && lower.substr(6) == word)) {
        return explanation;
      }
    }
  }
  return std::nullopt;
}

}  // namespace capstan::cli
