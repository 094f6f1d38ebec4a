#include "cli/programs.h"

#include <algorithm>

#include "cli/command_line.h"
#include "cli/reference/completion.h"
#include "cli/reference/man_page.h"
#include "tests/catch.h"

namespace capstan::cli {
namespace {

using Catch::Matchers::Contains;

// The values that parsing a program of one command would write to.
struct OddValues {
  std::string file, output = "table";
  std::vector<std::string> overrides;
  int count = 3, secret = 0;
  bool quiet = false, first = false;
};

CommandLine OddProgram(OddValues* values) {
  CommandLine line("Does odd things.", "odd");
  Command run = line.root().AddCommand("run", "Run 'it': all [of it].");
  run.Add("FILE", &values->file, "the file").Required();
  run.Add("-o,--output", &values->output, "table or json").OneOf({"table", "json"}).ShowDefault();
  run.Add("--count", &values->count, "how many").InRange(1, 9).ShowDefault();
  run.Add("--set", &values->overrides, "a.b=1");
  run.Add("--secret", &values->secret, "for a launcher").Hide();
  run.AddFlag("-q,--quiet", &values->quiet, "say less");
  run.AddChoice("role").AddFlag("--first", &values->first, ".first");
  run.Footer("More.");
  return line;
}

CommandFacts OddFacts() {
  OddValues values;
  return OddProgram(&values).root().Facts();
}

const OptionFacts& OptionIn(const CommandFacts& command, const std::string& name) {
  const auto found = std::find_if(command.options.begin(), command.options.end(), [&](const OptionFacts& option) {
    return option.argument == name || std::count(option.names.begin(), option.names.end(), name) > 0;
  });
  REQUIRE(found != command.options.end());
  return *found;
}

TEST_CASE("the facts of a command are those that it parses with", "[cli][reference]") {
  const CommandFacts program = OddFacts();
  CHECK(program.name == "odd");
  REQUIRE(program.commands.size() == 1);
  const CommandFacts& run = program.commands[0];
  CHECK(run.footer == "More.");
  CHECK(OptionIn(run, "FILE").is_required);
  CHECK(OptionIn(run, "FILE").names.empty());
  const OptionFacts& output = OptionIn(run, "--output");
  CHECK(output.names == std::vector<std::string>{"-o", "--output"});
  CHECK(output.words == std::vector<std::string>{"table", "json"});
  CHECK(output.default_value == "table");
  CHECK(output.kind == ValueKind::kText);
  CHECK(OptionIn(run, "--count").kind == ValueKind::kNumber);
  CHECK(OptionIn(run, "--count").range == "1 - 9");
  CHECK(OptionIn(run, "--count").words.empty());
  CHECK(OptionIn(run, "--quiet").kind == ValueKind::kFlag);
  CHECK(OptionIn(run, "--first").kind == ValueKind::kFlag);  // of a group of options
  CHECK(OptionIn(run, "--set").is_repeated);
  const std::vector<std::string>& keys = OptionIn(run, "--set").beginnings;
  CHECK(std::count(keys.begin(), keys.end(), "optimizer.lr=") == 1);
  const auto is_secret = [](const OptionFacts& option) { return option.help == "for a launcher"; };
  CHECK(std::none_of(run.options.begin(), run.options.end(), is_secret));
}

TEST_CASE("the servers' and workers' options are known to capstan", "[cli][reference]") {
  const std::vector<CommandFacts> programs = AllPrograms(OddFacts());
  REQUIRE(programs.size() == 3);
  CHECK(OptionIn(programs[1], "--index").range == "0 - 4095");
  CHECK(OptionIn(programs[2], "--data-root").kind == ValueKind::kText);
}

TEST_CASE("a manual page shows quotes, leading dots and dashes as they are", "[cli][reference]") {
  const std::string page = ManPage(OddFacts(), {"1.0", 86400, ".BR other (1)"});
  CHECK_THAT(page, Contains(".TH ODD 1 1970-01-02 \"capstan 1.0\""));
  CHECK_THAT(page, Contains("odd \\- Does odd things\n"));
  CHECK_THAT(page, Contains(".SS odd run\n\\fBodd run\\fR [\\fIOPTIONS\\fR] \\fIFILE\\fR\n"));
  CHECK_THAT(page, Contains("\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fItable|json\\fR\ntable or json. Default: table.\n"));
  CHECK_THAT(page, Contains("how many. From 1 \\- 9. Default: 3.\n"));
  CHECK_THAT(page, Contains("\n\\&.first.\n"));
  CHECK_THAT(page, Contains("\\fB2\\fR\nWrong use"));
  CHECK_THAT(page, !Contains("secret") && !Contains("exit\\-137"));
}

TEST_CASE("each shell's script names the words of an option, and quotes what the shell would read",
          "[cli][reference]") {
  const std::vector<CommandFacts> programs = {OddFacts()};
  CHECK_THAT(BashCompletion(programs), Contains("'odd run,-o'|'odd run,--output'") && Contains("'table json'") &&
                                           Contains("complete -F _capstan odd\n") && !Contains("secret"));
  CHECK_THAT(ZshCompletion(programs), Contains("#compdef odd\n") &&
                                          Contains("'run:Run '\\''it'\\''\\: all \\[of it\\].'") &&
                                          Contains(":value:(table json)") && !Contains("secret"));
  CHECK_THAT(FishCompletion(programs), Contains("-a run -d 'Run \\'it\\': all [of it].'") &&
                                           Contains("-s o -l output -x -a 'table json'") && !Contains("secret"));
}

}  // namespace
}  // namespace capstan::cli
