#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <type_traits>
#include <utility>

#include "cli/command_words.h"
#include "cli/run/process.h"
#include "common/base/utf8.h"
#include "common/config/job_config.h"

namespace capstan::cli {
namespace {

// Returns the texts between commas of "{table,json}"; nothing for other texts.
std::vector<std::string> WordsIn(const std::string& set) {
  std::vector<std::string> words;
  if (!set.starts_with('{') || !set.ends_with('}')) return words;
  for (std::size_t begin = 1; begin < set.size();) {
    const std::size_t end = std::min(set.find(',', begin), set.size() - 1);
    words.push_back(set.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// Reads the type of a value, which CLI11 has as text: "TEXT", "TEXT:{table,json}" or "INT:INT in [1 - 1000]".
void ReadType(const std::string& type, OptionFacts* facts) {
  const std::size_t colon = type.find(':');
  const std::string check = colon == type.npos ? "" : type.substr(colon + 1);
  facts->kind = type.starts_with("TEXT") ? ValueKind::kText : ValueKind::kNumber;
  facts->words = WordsIn(check);
  const std::size_t open = check.find('[');
  if (open != check.npos && check.ends_with(']')) facts->range = check.substr(open + 1, check.size() - open - 2);
}

OptionFacts FactsOf(const CLI::Option& option) {
  OptionFacts facts;
  for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  if (facts.names.empty()) facts.argument = option.get_name(true);
  facts.help = option.get_description();
  if (option.get_items_expected_max() > 0) ReadType(option.get_type_name(), &facts);
  facts.default_value = option.get_default_str();
  facts.is_required = option.get_required();
  facts.is_repeated = option.get_items_expected_max() > 1;
  if (option.check_lname("set")) {
    for (const std::string& key : JobFileKeys()) facts.beginnings.push_back(key + "=");
  }
  return facts;
}

void AddOptions(const CLI::App& app, std::vector<OptionFacts>* options) {
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) options->push_back(FactsOf(*option));
  }
  for (const CLI::App* group : app.get_subcommands(std::function<bool(const CLI::App*)>())) {
    if (group->get_name().empty()) AddOptions(*group, options);  // a group of options of which one may be given
  }
}

CommandFacts FactsOf(const CLI::App& app) {
  CommandFacts facts{app.get_name(), app.get_description(), app.get_footer(), {}, {}};
  AddOptions(app, &facts.options);
  for (const CLI::App* command : app.get_subcommands(std::function<bool(const CLI::App*)>())) {
    if (!command->get_name().empty()) facts.commands.push_back(FactsOf(*command));
  }
  return facts;
}

}  // namespace

Option& Option::Required() { return option_->required(), *this; }
Option& Option::ShowDefault() { return option_->capture_default_str(), *this; }
Option& Option::InRange(int min, int max) { return option_->check(CLI::Range(min, max)), *this; }
Option& Option::InRange(double min, double max) { return option_->check(CLI::Range(min, max)), *this; }
Option& Option::OneOf(const std::vector<std::string>& words) { return option_->check(CLI::IsMember(words)), *this; }
Option& Option::NotWith(const Option& other) { return option_->excludes(other.option_), *this; }
Option& Option::OnlyWith(const Option& other) { return option_->needs(other.option_), *this; }
Option& Option::Hide() { return option_->group(""), *this; }

template <class T>
Option Command::Add(const std::string& names, T* value, const std::string& help) {
  CLI::Option* const option = app_->add_option(names, *value, help);
  if constexpr (std::is_same_v<T, std::vector<std::string>>) option->allow_extra_args(!names.starts_with('-'));
  return Option(option);
}

template Option Command::Add(const std::string&, std::string*, const std::string&);
template Option Command::Add(const std::string&, std::vector<std::string>*, const std::string&);
template Option Command::Add(const std::string&, int*, const std::string&);
template Option Command::Add(const std::string&, unsigned*, const std::string&);
template Option Command::Add(const std::string&, double*, const std::string&);
template Option Command::Add(const std::string&, std::optional<std::uint64_t>*, const std::string&);

Option Command::AddAll(const std::string& name, std::vector<std::string>* values, const std::string& help) {
  return Option(app_->add_option(name, *values, help));
}

Option Command::AddFlag(const std::string& names, bool* value, const std::string& help) {
  return Option(app_->add_flag(names, *value, help));
}

Option Command::AddFlag(const std::string& names, RunBegin begin, RunBegin* value, const std::string& help) {
  return Option(app_->add_flag_function(
      names, [begin, value](std::int64_t) { *value = std::max(*value, begin); }, help));
}

void Command::Footer(const std::string& text) { app_->footer(text); }

void Command::AddVersion(const std::string& line) { app_->set_version_flag("--version", line); }

Command Command::AddCommand(const std::string& name, const std::string& help) {
  return Command(app_->add_subcommand(name, help));
}

Command Command::AddChoice(const std::string& name) {
  CLI::App* const group = app_->add_option_group(name);
  group->require_option(0, 1);
  return Command(group);
}

void Command::AllowOneCommand() { app_->require_subcommand(0, 1); }
bool Command::parsed() const { return app_->parsed(); }
bool Command::chose(const std::string& command) const { return app_->got_subcommand(command); }
std::string Command::Help(const std::string& program) const { return app_->help(program); }
CommandFacts Command::Facts() const { return FactsOf(std::as_const(*app_)); }

CommandLine::CommandLine(const std::string& description, const std::string& program)
    : app_(std::make_unique<CLI::App>(description, program)) {}
CommandLine::~CommandLine() = default;
CommandLine::CommandLine(CommandLine&& other) noexcept = default;

std::optional<int> CommandLine::Parse(const std::vector<std::string>& words) {
  Result<std::vector<std::string>> spread = SpreadSettings(words);
  if (!spread.ok()) return Complain(spread.status().message());
  try {
    std::reverse(spread->begin(), spread->end());  // CLI11 expects this order
    app_->parse(std::move(*spread));
  } catch (const CLI::Success& done) {
    app_->exit(done, std::cout, std::cerr);
    return kExitDone;
  } catch (const CLI::ExtrasError&) {
    return Complain(ExplainUnexpectedOf(words));
  } catch (const CLI::ParseError& error) {
    return Complain(error.what());
  }
  return std::nullopt;
}

int CommandLine::Complain(const std::string& message) const {
  std::cerr << app_->get_name() << ": " << Printable(message) << "\nTry '" << app_->get_name() << " --help'.\n";
  return kExitUsage;
}

std::string CommandLine::ExplainUnexpectedOf(const std::vector<std::string>& typed) const {
  const CLI::App* command = app_.get();
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  std::vector<std::string> options;
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  }
  return ExplainUnexpected({typed, app_->remaining(true), options, JobFileKeys()});
}

void DescribeResume(Command command, const std::string& who, RunBegin* begin) {
  const Option resume = command.AddFlag("--resume", RunBegin::kResume, begin,
                                        who + "go on with the job of --run-dir from its newest snapshot");
  command
      .AddFlag("--accept-rollback", RunBegin::kRollBack, begin,
               who +
                   "go on although the coordinator's log is older than what its servers have seen: what "
                   "came after its newest snapshot is given up")
      .OnlyWith(resume);
}

void DescribeAllowPlaintext(Command command, bool* value) {
  command.AddFlag("--allow-plaintext", value,
                  "other machines may reach this process, without keys: whoever can connect is believed");
}

void DescribeKeyFile(Command command, std::string* path) {
  command.Add("--key-file", path,
              "FILE with this process's key, of a job whose coordinator has a key (default: CAPSTAN_KEY_FILE)");
}

}  // namespace capstan::cli
