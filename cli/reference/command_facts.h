// CommandFacts: the commands and options of a program, as its help, its completion and its manual page show them.
//
// Kind:   values, made from what the program parses with (Command::Facts).
// Why:    what is parsed is the one list of commands and options; everything that describes them is made from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace capstan::cli {

enum class ValueKind : std::uint8_t { kFlag, kNumber, kText };  // kFlag: no value follows

struct OptionFacts {
  std::vector<std::string> names;  // such as "-o" and "--output"; empty: a positional argument
  std::string argument;            // name of a positional argument
  ValueKind kind = ValueKind::kFlag;
  std::string help;
  std::string range;                    // such as "1 - 1000"; empty: any
  std::string default_value;            // empty: none is shown
  std::vector<std::string> words;       // all values that are allowed; empty: any
  std::vector<std::string> beginnings;  // of values, such as "optimizer.lr="
  bool is_required = false, is_repeated = false;
};

struct CommandFacts {
  std::string name;
  std::string help;
  std::string footer;  // text behind the options
  std::vector<OptionFacts> options;
  std::vector<CommandFacts> commands;
};

// Calls visit(path, command) for a program and for each of its commands; `path` is such as "capstan snapshot list".
template <class Visit>
void VisitCommands(const CommandFacts& command, const std::string& path, const Visit& visit) {
  visit(path, command);
  for (const CommandFacts& below : command.commands) VisitCommands(below, path + " " + below.name, visit);
}

}  // namespace capstan::cli
