#include "cli/reference_command.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cli/programs.h"
#include "cli/reference/completion.h"
#include "cli/reference/man_page.h"
#include "cli/run/build_info.h"
#include "cli/run/process.h"

namespace capstan::cli {
namespace {

const char* WordOf(ValueKind kind) {
  switch (kind) {
    case ValueKind::kFlag: return "flag";
    case ValueKind::kNumber: return "number";
    case ValueKind::kText: break;
  }
  return "text";
}

nlohmann::ordered_json JsonOf(const OptionFacts& option) {
  return {{"names", option.names}, {"argument", option.argument},    {"kind", WordOf(option.kind)},
          {"help", option.help},   {"range", option.range},          {"default", option.default_value},
          {"words", option.words}, {"required", option.is_required}, {"repeated", option.is_repeated}};
}

nlohmann::ordered_json JsonOf(const CommandFacts& command) {
  nlohmann::ordered_json options = nlohmann::ordered_json::array(), commands = options;
  for (const OptionFacts& option : command.options) options.push_back(JsonOf(option));
  for (const CommandFacts& below : command.commands) commands.push_back(JsonOf(below));
  return {{"name", command.name},
          {"help", command.help},
          {"footer", command.footer},
          {"options", std::move(options)},
          {"commands", std::move(commands)}};
}

std::string OptionsJson(const std::vector<CommandFacts>& programs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CommandFacts& program : programs) list.push_back(JsonOf(program));
  return list.dump(2) + "\n";
}

std::string Page(const std::vector<CommandFacts>& programs, const std::string& name) {
  const Build build = BuildOfThis();
  ManPageFacts facts{build.version, build.commit_time, ""};
  const CommandFacts* chosen = &programs.front();
  for (const CommandFacts& program : programs) {
    if (program.name == name) {
      chosen = &program;
    } else {
      facts.see_also += (facts.see_also.empty() ? ".BR " : " ,\n.BR ") + program.name + " (1)";
    }
  }
  return ManPage(*chosen, facts);
}

}  // namespace

ReferenceCommands::ReferenceCommands(Command app)
    : app_(app),
      completion_(app.AddCommand("completion", "Print a script with which a shell completes all three programs.")),
      man_(app.AddCommand("man", "Print a program's manual page: capstan man | man -l -")),
      options_(app.AddCommand("options", "Print all commands and options of the three programs, for programs.")) {
  completion_.Add("SHELL", &shell_, "bash, zsh or fish").OneOf({"bash", "zsh", "fish"}).Required();
  man_.Add("PROGRAM", &program_, "capstan, capstan-server or capstan-worker")
      .OneOf({"capstan", "capstan-server", "capstan-worker"})
      .ShowDefault();
  options_.Add("-o,--output", &output_, "json").OneOf({"json"}).ShowDefault();
}

int ReferenceCommands::Run() const {
  const std::vector<CommandFacts> programs = AllPrograms(app_.Facts());
  std::string text;
  if (completion_.parsed()) {
    text = shell_ == "bash"  ? BashCompletion(programs)
           : shell_ == "zsh" ? ZshCompletion(programs)
                             : FishCompletion(programs);
  } else {
    text = man_.parsed() ? Page(programs, program_) : OptionsJson(programs);
  }
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

}  // namespace capstan::cli
