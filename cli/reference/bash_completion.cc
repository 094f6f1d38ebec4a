#include <string>

#include "cli/reference/completion.h"

namespace capstan::cli {
namespace {

// The parts of the script that do not depend on the programs. Bash splits words at "=", so "--output=json" is three of
// them; `prev` is then the option.
constexpr char kBegin[] = R"(# Completion for bash, made by "capstan completion bash".
_capstan() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path=${COMP_WORDS[0]##*/} i
  COMPREPLY=()
  if [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  if [[ $cur == '=' ]]; then cur=; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then  # a program of the user's own follows
      if ((i == COMP_CWORD - 1)); then COMPREPLY=($(compgen -c -- "$cur")); fi
      return
    fi
    case "$path ${COMP_WORDS[i]}" in
)";
constexpr char kOptions[] = R"(      path="$path ${COMP_WORDS[i]}" ;;
    esac
  done
  case "$path,$prev" in
)";
constexpr char kWords[] = R"(  esac
  case "$path" in
)";
constexpr char kEnd[] = R"(  esac
}
)";

std::string Joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string Offer(const std::vector<std::string>& words) {
  return "COMPREPLY=($(compgen -W '" + Joined(words, " ") + "' -- \"$cur\"))";
}

// Adds a case for the values of an option; for other texts than words, the shell offers files.
void AddValues(const std::string& path, const OptionFacts& option, std::string* script) {
  if (option.kind == ValueKind::kFlag || option.names.empty()) return;
  std::vector<std::string> patterns;
  for (const std::string& name : option.names) patterns.push_back("'" + path + "," + name + "'");
  *script += "    " + Joined(patterns, "|") + ") ";
  if (!option.words.empty()) {
    *script += Offer(option.words) + "; ";
  } else if (!option.beginnings.empty()) {
    *script += Offer(option.beginnings) + "; compopt -o nospace 2>/dev/null; ";
  } else if (option.kind == ValueKind::kText) {
    *script += "compopt -o default 2>/dev/null; ";
  }
  *script += "return ;;\n";
}

// Adds a case for what may follow a command.
void AddWords(const std::string& path, const CommandFacts& command, std::string* script) {
  std::vector<std::string> options, values;
  bool takes_files = false;
  for (const CommandFacts& below : command.commands) values.push_back(below.name);
  for (const OptionFacts& option : command.options) {
    options.insert(options.end(), option.names.begin(), option.names.end());
    if (!option.names.empty()) continue;
    values.insert(values.end(), option.words.begin(), option.words.end());
    takes_files = takes_files || option.words.empty();
  }
  *script += "    '" + path + "')\n      if [[ $cur == -* ]]; then " + Offer(options) + "; return; fi\n      " +
             (takes_files ? "compopt -o default 2>/dev/null" : Offer(values)) + " ;;\n";
}

}  // namespace

std::string BashCompletion(const std::vector<CommandFacts>& programs) {
  std::vector<std::string> commands;
  std::string names, values, words;
  for (const CommandFacts& program : programs) {
    names += " " + program.name;
    VisitCommands(program, program.name, [&](const std::string& path, const CommandFacts& command) {
      if (path != program.name) commands.push_back("'" + path + "'");
      for (const OptionFacts& option : command.options) AddValues(path, option, &values);
      AddWords(path, command, &words);
    });
  }
  return kBegin + ("      " + Joined(commands, "|") + ")\n") + kOptions + values + kWords + words + kEnd +
         "complete -F _capstan" + names + "\n";
}

}  // namespace capstan::cli
