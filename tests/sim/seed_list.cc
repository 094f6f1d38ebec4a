#include "tests/sim/seed_list.h"

#include <fstream>
#include <optional>
#include <sstream>

namespace capstan::sim {

namespace {

// Sets the fields of `name` that a mode word such as "async+durable" stands for. Returns false if the word is unknown.
bool ReadModeWord(const std::string& word, RunName* name) {
  const auto has = [&](const char* part) {
    return ("+" + word + "+").find(std::string("+") + part + "+") != word.npos;
  };
  name->durable = has("durable");
  name->local = has("local");
  name->external = has("external");
  name->median = has("median");
  name->shared = has("shared");
  name->old = has("old");
  name->slow_lines = has("slow-lines");
  for (Mode mode : {Mode::kSync, Mode::kAsync, Mode::kBounded, Mode::kAllReduce}) {
    name->mode = mode;
    if (word == ModeWord(*name)) return true;
  }
  return false;
}

std::optional<ListedRun> ReadLine(const std::string& line) {
  std::istringstream words(line);
  ListedRun run;
  std::string mode;
  if (!(words >> run.name.seed >> mode >> run.name.edition) || !ReadModeWord(mode, &run.name)) return std::nullopt;
  std::getline(words >> std::ws, run.note);
  return run;
}

}  // namespace

std::string ModeWord(const RunName& name) {
  return NameOf(name.mode) + (name.durable ? "+durable" : "") + (name.local ? "+local" : "") +
         (name.external ? "+external" : "") + (name.median ? "+median" : "") + (name.shared ? "+shared" : "") +
         (name.old ? "+old" : "") + (name.slow_lines ? "+slow-lines" : "");
}

std::string Command(const RunName& name) {
  std::string command = "sim --seed " + std::to_string(name.seed);
  if (name.mode != Mode::kSync) command += " --" + NameOf(name.mode);
  if (name.durable) command += " --durable";
  if (name.local) command += " --local";
  if (name.external) command += " --external";
  if (name.median) command += " --median";
  if (name.shared) command += " --shared";
  if (name.old) command += " --old";
  if (name.old && name.old_steps != kOldSteps) command += " --steps " + std::to_string(name.old_steps);
  if (name.slow_lines) command += " --slow-lines";
  if (name.edition != kNewestEdition) command += " --edition " + std::to_string(name.edition);
  return command;
}

Result<std::vector<ListedRun>> ReadSeedList(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Invalid(path + ": cannot be read");
  std::vector<ListedRun> runs;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty() || line.starts_with("#")) continue;
    const std::optional<ListedRun> run = ReadLine(line);
    if (!run) return Invalid(path + ":" + std::to_string(number) + ": not a seed, a mode and an edition: " + line);
    runs.push_back(*run);
  }
  return runs;
}

Status WriteSeedList(const std::string& path, const std::vector<ListedRun>& runs) {
  std::string text;
  std::ifstream before(path);
  for (std::string line; std::getline(before, line) && line.starts_with("#");) text += line + "\n";
  for (const ListedRun& run : runs) {
    text += std::to_string(run.name.seed) + " " + ModeWord(run.name) + " " + std::to_string(run.name.edition) + " " +
            run.note + "\n";
  }
  std::ofstream file(path);
  file << text;
  file.flush();
  return file ? Status() : Invalid(path + ": cannot be written");
}

}  // namespace capstan::sim
