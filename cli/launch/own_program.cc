#include "cli/launch/own_program.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/run/shell_words.h"
#include "common/config/job/model_section.h"
#include "common/config/job_config.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> ValueOf(const std::vector<std::string>& variables, std::string_view name) {
  for (const std::string& variable : variables) {
    if (variable.starts_with(name) && variable.size() > name.size() && variable[name.size()] == '=') {
      return variable.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

void SetVariable(const std::string& name, const std::string& value, std::vector<std::string>* variables) {
  std::erase_if(*variables, [&](const std::string& variable) { return variable.starts_with(name + "="); });
  variables->push_back(name + "=" + value);
}

// Returns the pieces between colons.
std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    pieces.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

bool CanBeRun(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

Result<std::string> FindInPath(const std::string& word, const std::string& folders) {
  if (word.find('/') != word.npos) {
    if (CanBeRun(word)) return word;
    std::error_code error;
    return Invalid(fs::exists(word, error) ? word + " cannot be run: it is no program, or is not executable"
                                           : "there is no program " + word);
  }
  for (const std::string& folder : Split(folders)) {
    std::string path = (folder.empty() ? "." : folder) + "/" + word;
    if (CanBeRun(path)) return path;
  }
  std::error_code error;
  if (!fs::exists(word, error)) return Invalid("there is no program \"" + word + "\" in PATH");
  const std::string call = word.ends_with(".py") ? "python3 " + word : "./" + word;
  return Invalid("there is no program \"" + word + "\" in PATH; for the file of that name here, write " + call);
}

}  // namespace

std::vector<std::string> VariablesOf(const char* const* environment) {
  std::vector<std::string> variables;
  for (; *environment != nullptr; ++environment) variables.emplace_back(*environment);
  return variables;
}

Result<OwnProgram> FindOwnProgram(const std::vector<std::string>& words, const JobConfig& config,
                                  std::vector<std::string> variables) {
  if (config.model.built_in()) {
    return Invalid(
        "this job's model is computed by capstan-worker, and \"" + ShellWords(words) +
        "\" would have no part in it: leave out \"--\" and what follows it, or set [model] kind = \"client\" "
        "in the job file, without [data] and [worker]");
  }
  OwnProgram program;
  program.words = words;
  program.variables = std::move(variables);
  const std::string folders = ValueOf(program.variables, "PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  CAPSTAN_ASSIGN_OR_RETURN(program.path, FindInPath(words.front(), folders));
  return program;
}

Status AddPythonPackage(const std::string& binaries, const std::string& run_dir, OwnProgram* program) {
  std::error_code error;
  const std::string path = ValueOf(program->variables, "PYTHONPATH").value_or("");
  for (const std::string& folder : Split(path)) {
    if (!folder.empty() && fs::exists(folder + "/capstan/__init__.py", error)) return {};
  }
  const fs::path package = fs::weakly_canonical(binaries + "/../lib/python3/dist-packages/capstan", error);
  if (error || !fs::exists(package / "__init__.py", error)) return {};
  // Our package may lie in a folder with other packages of the system. So PYTHONPATH gets a new folder that holds only
  // a link to our package.
  const fs::path folder = fs::absolute(run_dir, error) / "python", link = folder / "capstan";
  fs::create_directories(folder, error);
  if (fs::is_symlink(link, error)) fs::remove(link, error);  // from an earlier start
  fs::create_directory_symlink(package, link, error);
  if (error) return Unreachable("cannot make " + link.string() + ": " + error.message());
  SetVariable("PYTHONPATH", path.empty() ? folder.string() : path + ":" + folder.string(), &program->variables);
  return {};
}

std::vector<std::string> EnvironmentOf(const OwnProgram& program, const WorkerPlace& place) {
  std::vector<std::string> variables = program.variables;
  // A coordinator or a broker that the launcher itself inherited is another job's.
  std::erase_if(variables, [](const std::string& variable) {
    return variable.starts_with("CAPSTAN_COORDINATOR=") || variable.starts_with("CAPSTAN_BROKER=");
  });
  if (place.coordinator.empty()) {
    SetVariable("CAPSTAN_BROKER", place.broker, &variables);
  } else {
    SetVariable("CAPSTAN_COORDINATOR", place.coordinator, &variables);
  }
  if (!place.key_file.empty()) SetVariable("CAPSTAN_KEY_FILE", place.key_file, &variables);
  SetVariable("CAPSTAN_WORKER", place.worker, &variables);
  SetVariable("CAPSTAN_INDEX", std::to_string(place.index), &variables);
  SetVariable("CAPSTAN_INDEXES", std::to_string(place.count), &variables);
  // A Python program's output must appear at once, although it goes through a pipe.
  if (!ValueOf(variables, "PYTHONUNBUFFERED")) SetVariable("PYTHONUNBUFFERED", "1", &variables);
  return variables;
}

}  // namespace capstan::cli
