#include "cli/launch/last_words.h"

#include <filesystem>
#include <vector>

#include "cli/launch/resume.h"
#include "cli/report/sha256_file.h"
#include "cli/run/shell_words.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

std::string GoOnCall(const LaunchArguments& arguments, const std::string& run_dir, const std::string& settings) {
  std::vector<std::string> words = {arguments.capstan, "launch", "--resume", "--run-dir", run_dir};
  if (arguments.allow_plaintext) words.emplace_back("--allow-plaintext");
  if (!arguments.keys.empty()) words.insert(words.end(), {"--keys", arguments.keys});
  if (!arguments.trace.empty()) words.insert(words.end(), {"--trace", arguments.trace});
  std::string call = ShellWords(words) + (settings.empty() ? "" : " ") + settings;
  if (!arguments.program.empty()) call += " -- " + ShellWords(arguments.program);
  return call;
}

std::string DoneAlready(const LaunchArguments& arguments, const std::string& run_dir, std::uint64_t steps) {
  const std::string weights = run_dir + "/final.safetensors";
  const std::string more = "--set job.steps=" + std::to_string(2 * steps);
  const Result<std::string> sum = Sha256OfFile(weights);
  return "was done already: " + std::to_string(steps) + (steps == 1 ? " step" : " steps") + "; weights: " + weights +
         (sum.ok()          ? "  sha256 " + *sum
          : Exists(weights) ? ", which cannot be read: " + sum.status().message()
                            : ", which is gone (capstan snapshot export writes it again)") +
         "\nto train longer: " + GoOnCall(arguments, run_dir, more);
}

std::string WhyItEnded(const LaunchArguments& arguments, const std::string& run_dir, const Status& status, int stops) {
  std::string text = status.ok() ? "stopped" : status.message();
  const bool has_snapshot = HasSnapshot(run_dir);
  if (stops > 1) {
    text += has_snapshot
                ? "\ncapstan: it was left at once: steps since the newest snapshot are to be done again"
                : "\ncapstan: it was left at once, and there is no snapshot yet: all steps are to be done again";
  }
  text += stops > 0 ? "\ncapstan: run directory: " + run_dir
                    : "\ncapstan: the job failed; its logs are in " + run_dir + "/logs";
  if (!HasBegun(run_dir)) return text;
  return text + "\ncapstan: " + (stops > 0 ? "to go on: " : "when that is mended, go on by: ") +
         GoOnCall(arguments, run_dir);
}

}  // namespace capstan::cli
