#include <algorithm>
#include <string>

#include "cli/reference/completion.h"

namespace capstan::cli {
namespace {

// Returns a text for the inside of '...[TEXT]...' in a specification of _arguments.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'') {
      escaped += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
      escaped += c;
    }
  }
  return escaped;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Returns the part ":MESSAGE:ACTION" for a value.
std::string ValueOf(const OptionFacts& option, const std::string& message) {
  if (!option.words.empty()) return ":" + message + ":(" + Joined(option.words) + ")";
  if (!option.beginnings.empty()) {
    return ":" + message + ":{compadd -S \"\" -- " + Joined(option.beginnings) + "}";
  }
  return ":" + message + (option.kind == ValueKind::kText ? ":_files" : ": ");
}

// Adds a line of _arguments for each name of an option, of which one excludes the others.
void AddOption(const OptionFacts& option, std::string* lines) {
  if (option.names.empty()) {
    *lines += " \\\n    '::" + Escaped(option.argument) + ValueOf(option, "").substr(1) + "'";
    return;
  }
  const std::string others = option.is_repeated ? "*" : "(" + Joined(option.names) + ")";
  for (const std::string& name : option.names) {
    const std::string value = option.kind == ValueKind::kFlag ? "" : ValueOf(option, "value");
    *lines += " \\\n    '" + others + name + "[" + Escaped(option.help) + "]" + value + "'";
  }
}

std::string FunctionOf(const std::string& path) {
  std::string name = "_" + path;
  std::replace(name.begin(), name.end(), ' ', '_');
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Returns the function for a command with commands below it.
std::string OfGroup(const std::string& path, const CommandFacts& command, const std::string& options) {
  std::string list, cases;
  for (const CommandFacts& below : command.commands) {
    list += "\n        '" + below.name + ":" + Escaped(below.help) + "'";
    cases += "\n        " + below.name + ") " + FunctionOf(path + " " + below.name) + " ;;";
  }
  return FunctionOf(path) + "() {\n  local context state state_descr line\n  typeset -A opt_args\n  _arguments -C" +
         options +
         " \\\n    '1:command:->command' '*::argument:->argument'\n  case $state in\n    command)\n      local -a "
         "commands=(" +
         list + ")\n      _describe command commands ;;\n    argument)\n      case $line[1] in" + cases +
         "\n      esac ;;\n  esac\n}\n";
}

}  // namespace

std::string ZshCompletion(const std::vector<CommandFacts>& programs) {
  std::string names, functions, cases;
  for (const CommandFacts& program : programs) {
    names += " " + program.name;
    cases += "  " + program.name + ") " + FunctionOf(program.name + " program") + " \"$@\" ;;\n";
    VisitCommands(program, program.name + " program", [&](const std::string& path, const CommandFacts& command) {
      std::string options;
      for (const OptionFacts& option : command.options) AddOption(option, &options);
      functions += command.commands.empty() ? FunctionOf(path) + "() {\n  _arguments" + options + "\n}\n"
                                            : OfGroup(path, command, options);
    });
  }
  return "#compdef" + names + "\n# Completion for zsh, made by \"capstan completion zsh\".\n" + functions +
         "case $service in\n" + cases + "esac\n";
}

}  // namespace capstan::cli
