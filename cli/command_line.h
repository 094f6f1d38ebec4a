// CommandLine: the options and commands of a program. DescribeResume and others: options that several have.
//
// Kind:   CommandLine is owned by main; Command and Option are handles to parts of it.
// Why:    only command_line.cc uses the library CLI11; the exceptions of CLI11 stop there.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/reference/command_facts.h"
#include "cli/run/run_directory.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace capstan::cli {

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option& Required();
  Option& ShowDefault();
  Option& InRange(int min, int max);
  Option& InRange(double min, double max);
  Option& OneOf(const std::vector<std::string>& words);
  Option& NotWith(const Option& other);
  Option& OnlyWith(const Option& other);
  Option& Hide();  // leaves it out of the help

 private:
  CLI::Option* option_;
};

class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  // Adds an option. Before parsing, `value` holds the default; parsing writes to `value`, which must live until then. T
  // is std::string, int, unsigned, double, std::optional<std::uint64_t>, or a vector of strings, which gets one string
  // each time the option is given, and all words of an argument without a dash.
  template <class T>
  Option Add(const std::string& names, T* value, const std::string& help);
  // Adds a place for any number of words.
  Option AddAll(const std::string& name, std::vector<std::string>* values, const std::string& help);
  Option AddFlag(const std::string& names, bool* value, const std::string& help);
  // Adds a flag that sets `value` to `begin`. If several such flags are given, the largest `begin` counts.
  Option AddFlag(const std::string& names, RunBegin begin, RunBegin* value, const std::string& help);
  // Adds text at the end of the help.
  void Footer(const std::string& text);
  void AddVersion(const std::string& line);

  Command AddCommand(const std::string& name, const std::string& help);
  // Adds a group of options of which at most one may be given.
  Command AddChoice(const std::string& name);
  void AllowOneCommand();

  bool parsed() const;
  bool chose(const std::string& command) const;
  // Returns the help. `program` is put before the command's own name in the usage line.
  std::string Help(const std::string& program = "") const;
  // Returns all that is described so far, without hidden options.
  CommandFacts Facts() const;

 private:
  CLI::App* app_;
};

class CommandLine {
 public:
  CommandLine(const std::string& description, const std::string& program);
  ~CommandLine();
  CommandLine(CommandLine&& other) noexcept;
  CommandLine& operator=(CommandLine&&) = delete;

  Command root() const { return Command(app_.get()); }
  // Returns nothing if the program is to continue. Otherwise returns the exit code: 0 after --help or --version, 2
  // after a message about wrong use.
  std::optional<int> Parse(int argc, char** argv) { return Parse({argv + 1, argv + argc}); }
  // Like the other Parse. `words` are the command-line arguments without the program's name.
  std::optional<int> Parse(const std::vector<std::string>& words);

 private:
  int Complain(const std::string& message) const;
  std::string ExplainUnexpectedOf(const std::vector<std::string>& typed) const;

  std::unique_ptr<CLI::App> app_;
};

// Adds the options that continue a run. The help text of each begins with `who`. Parsing writes to `begin`, which must
// live until then.
void DescribeResume(Command command, const std::string& who, RunBegin* begin);

// Adds the flag that allows addresses that other machines reach without keys. Parsing writes to `value`.
void DescribeAllowPlaintext(Command command, bool* value);
void DescribeKeyFile(Command command, std::string* path);

}  // namespace capstan::cli
