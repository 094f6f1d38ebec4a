#include "cli/run_command.h"

#include <signal.h>

#include <nlohmann/json.hpp>
#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/report/progress.h"
#include "cli/run/exposure.h"
#include "cli/run/find_run.h"
#include "cli/run/json_fields.h"
#include "cli/run/print_json.h"
#include "cli/run/process.h"
#include "cli/view/job_look.h"
#include "common/base/file_lock.h"
#include "common/base/utf8.h"

namespace capstan::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kStopSeconds = 120;  // a last snapshot may take more than half of this
constexpr int kReportEverySeconds = 5;

int Fail(const Status& status, int code) {
  std::fprintf(stderr, "capstan: %s\n", Printable(status.message()).c_str());
  return code;
}

void Print(const std::string& line) { std::printf("%s\n", PrintableLine(line).c_str()); }

std::string TextOf(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string LossText(const json& loss) {
  if (!loss.is_number()) return TextOf(loss);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", loss.get<double>());
  return text.data();
}

// Returns a text such as "step 120 of 600, loss 2.13, workers: 2, running" for the answer of a coordinator.
std::string StateText(const json& status) {
  std::string line;
  if (status.contains("step")) {
    const std::string of = status.contains("steps") ? " of " + TextOf(status["steps"]) : "";  // else it is open-ended
    line += "step " + TextOf(status["step"]) + of + ", ";
  }
  if (status.contains("loss")) line += "loss " + LossText(status["loss"]) + ", ";
  if (status.contains("worker_count")) line += "workers: " + TextOf(status["worker_count"]) + ", ";
  if (status.contains("transport") && status["transport"] == kNotProtected) line += TextOf(status["transport"]) + ", ";
  return line + TextOf(status.contains("waiting") ? status["waiting"] : status["state"]);
}

// Returns a text such as "1234 samples/s, 0:35 left; bound by: ..." with what the coordinator knows; empty: nothing.
std::string SpeedText(const json& status) {
  std::string line;
  const auto add = [&](const std::string& text, const char* between) { line += (line.empty() ? "" : between) + text; };
  if (const auto rate = NumberIn(status, "samples_per_second")) add(LossText(*rate) + " samples/s", ", ");
  if (const auto left = NumberIn(status, "seconds_left")) add(Duration(std::max(*left, 0.0)) + " left", ", ");
  const std::string bound = status.contains("bound_by") ? TextIn(status["bound_by"], "sentence") : "";
  if (!bound.empty()) add("bound by: " + bound, "; ");
  return line;
}

ordered_json JsonOf(const JobTarget& target, const JobLook& look) {
  ordered_json object;
  if (!target.run_dir.empty()) object["run_dir"] = target.run_dir;
  object["state"] = WordOf(look);
  if (look.process != 0) object["process"] = look.process;
  if (!look.address.empty()) object["url"] = look.Url();
  if (!look.text.empty()) object["text"] = look.text;
  if (look.done_steps) object["done_steps"] = *look.done_steps;
  if (look.kind == JobLook::Kind::kAnswers) object["status"] = look.status;
  return object;
}

// Waits until the process that holds the run has ended. Returns false if it does not end in time.
bool AwaitEnd(const std::string& run, int holder) {
  for (int waited = 0; waited < kStopSeconds; waited += kReportEverySeconds) {
    if (FileLock::Acquire(run + "/lock", kReportEverySeconds).ok()) return true;
    Complain("capstan", "waiting " + std::to_string(waited + kReportEverySeconds) + " s for process " +
                            std::to_string(holder) + " to end; giving up after " + std::to_string(kStopSeconds) + " s");
  }
  return false;
}

}  // namespace

int RunStatus(const StatusArguments& arguments) {
  PrepareProcess();  // OpenSSL writes to a connection that may be broken
  const Result<JobTarget> target = FindTarget(arguments.word, arguments.access);
  if (!target.ok()) return Fail(target.status(), kExitUsage);
  const JobLook look = LookAtJob(*target);
  const bool failed = look.kind == JobLook::Kind::kSilent || look.kind == JobLook::Kind::kUnreadable;
  if (arguments.output == "json") PrintJson(JsonOf(*target, look));
  if (failed) {
    return Fail(Unreachable((look.kind == JobLook::Kind::kSilent ? target->name() + ": " : "") + look.text),
                kExitFailed);
  }
  if (arguments.output == "json") return kExitDone;
  if (look.kind != JobLook::Kind::kAnswers) {
    Print(target->name() + ": " + look.text);
    return kExitDone;
  }
  Print(target->name() + ": " + StateText(look.status) + "; " + look.Url());
  if (const std::string speed = SpeedText(look.status); !speed.empty()) Print("  " + speed);
  return kExitDone;
}

int RunStop(const std::string& run_dir, const std::string& output) {
  const Result<std::string> run = run_dir.empty() ? RunningRun() : RunOrDefault(run_dir);
  if (!run.ok()) return Fail(run.status(), kExitUsage);
  const Result<int> holder = HolderOf(*run);
  if (!holder.ok()) return Fail(holder.status(), kExitFailed);
  if (*holder == 0) return Fail(Invalid("no job runs in " + *run), kExitUsage);
  const std::string process = "process " + std::to_string(*holder);
  if (kill(*holder, SIGINT) != 0) {
    return Fail(Refused(process + ", which has " + *run +
                        ", cannot be told to stop: it is another user's, or has ended just now"),
                kExitFailed);
  }
  Complain("capstan", "stopping " + *run + " (" + process + "): it takes a last snapshot");
  if (!AwaitEnd(*run, *holder)) {
    return Fail(Timeout("it has not ended after " + std::to_string(kStopSeconds) + " s"), kExitFailed);
  }
  const JobLook look = LookAtRest(*run);
  if (output == "json") {
    PrintJson(JsonOf({*run, "", {}}, look));
  } else {
    Print(*run + ": " + look.text);
  }
  return kExitDone;
}

}  // namespace capstan::cli
