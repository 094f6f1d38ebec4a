#include <string>

#include "cli/reference/completion.h"

namespace capstan::cli {
namespace {

std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Returns a condition of fish: the commands of the path have been typed, and no command below the last.
std::string Condition(const std::string& path, const CommandFacts& command) {
  std::string condition;
  for (std::size_t begin = path.find(' '); begin != path.npos;) {
    const std::size_t end = path.find(' ', begin + 1);
    condition += (condition.empty() ? "" : "; and ") +
                 ("__fish_seen_subcommand_from " + path.substr(begin + 1, end - begin - 1));
    begin = end;
  }
  std::string below;
  for (const CommandFacts& other : command.commands) below += " " + other.name;
  if (below.empty()) return condition;
  return condition + (condition.empty() ? "not" : "; and not") + " __fish_seen_subcommand_from" + below;
}

void AddOption(const std::string& start, const OptionFacts& option, std::string* script) {
  *script += start;
  for (const std::string& name : option.names) {
    *script += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  const std::vector<std::string>& values = option.words.empty() ? option.beginnings : option.words;
  if (!values.empty()) {
    *script += (option.names.empty() ? " -f -a " : " -x -a ") + Quoted(Joined(values));
  } else if (!option.names.empty() && option.kind != ValueKind::kFlag) {
    *script += option.kind == ValueKind::kText ? " -r -F" : " -x";
  }
  *script += " -d " + Quoted(option.help) + "\n";
}

}  // namespace

std::string FishCompletion(const std::vector<CommandFacts>& programs) {
  std::string script = "# Completion for fish, made by \"capstan completion fish\".\n";
  for (const CommandFacts& program : programs) {
    VisitCommands(program, program.name, [&](const std::string& path, const CommandFacts& command) {
      const std::string condition = Condition(path, command);
      const std::string start = "complete -c " + program.name + (condition.empty() ? "" : " -n " + Quoted(condition));
      for (const CommandFacts& below : command.commands) {
        script += start + " -f -a " + below.name + " -d " + Quoted(below.help) + "\n";
      }
      for (const OptionFacts& option : command.options) {
        const bool is_file = option.names.empty() && option.words.empty();  // which fish offers by itself
        if (!is_file) AddOption(start, option, &script);
      }
    });
  }
  return script;
}

}  // namespace capstan::cli
