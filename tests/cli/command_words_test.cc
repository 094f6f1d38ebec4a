#include "cli/command_words.h"

#include "tests/catch.h"

namespace capstan::cli {
namespace {

using Words = std::vector<std::string>;

std::string Explain(const Words& typed, const Words& unexpected) {
  return ExplainUnexpected({typed,
                            unexpected,
                            {"--run-dir", "--resume", "--set"},
                            {"cluster.workers", "job.steps", "model.kind", "data.kind"}});
}

TEST_CASE("several assignments behind one --set are one --set each", "[cli][command_line]") {
  CHECK(SpreadSettings({"launch", "--set", "a.b=1", "c.d=2", "job.toml"}).value() ==
        Words{"launch", "--set", "a.b=1", "--set", "c.d=2", "job.toml"});
  CHECK(SpreadSettings({"--set", "a.b=-1", "--resume"}).value() == Words{"--set", "a.b=-1", "--resume"});
  CHECK(SpreadSettings({"--set"}).value() == Words{"--set"});
  CHECK(SpreadSettings({"job.toml", "x=1"}).value() == Words{"job.toml", "x=1"});
}

TEST_CASE("the words behind a script are its own", "[cli][command_line]") {
  CommandFacts run;
  const auto add = [&](const Words& names, ValueKind kind) {
    OptionFacts option;
    option.names = names;
    option.kind = kind;
    run.options.push_back(option);
  };
  add({}, ValueKind::kText);  // the script
  add({"--workers"}, ValueKind::kNumber);
  add({"--set"}, ValueKind::kText);
  add({"-q", "--quiet"}, ValueKind::kFlag);
  struct Case {
    Words typed, left, arguments;
  };
  for (const Case& one : {
           Case{{"run", "train.py"}, {"run", "train.py"}, {}},
           Case{{"run", "train.py", "--workers", "3", "--", "-q"}, {"run", "train.py"}, {"--workers", "3", "--", "-q"}},
           Case{{"run", "--workers", "2", "-q", "train.py", "a"}, {"run", "--workers", "2", "-q", "train.py"}, {"a"}},
           Case{{"run", "--workers=2", "train.py", "a"}, {"run", "--workers=2", "train.py"}, {"a"}},
           Case{{"run", "--set", "a.b=1", "c.d=2", "t.py", "e.f=3"},
                {"run", "--set", "a.b=1", "c.d=2", "t.py"},
                {"e.f=3"}},
           Case{{"run", "-q", "--", "train.py", "-q"}, {"run", "-q", "train.py"}, {"-q"}},
           Case{{"run", "--workers"}, {"run", "--workers"}, {}},
           Case{{"run", "--nothing", "train.py", "-q"}, {"run", "--nothing", "train.py"}, {"-q"}},
       }) {
    Words words = one.typed;
    INFO(words.size() << " words, the last is " << words.back());
    CHECK(TakeScriptArguments(run, &words) == one.arguments);
    CHECK(words == one.left);
  }
}

TEST_CASE("an assignment without = is named with what to write", "[cli][command_line]") {
  const Status status = SpreadSettings({"--set", "optimizer.lr", "0.1"}).status();
  CHECK(status.message() == "the \"=\" is missing in --set optimizer.lr 0.1; write --set optimizer.lr=0.1");
  CHECK(SpreadSettings({"--set", "optimizer.lr", "-0.1"}).status().message().ends_with("optimizer.lr=-0.1"));
  CHECK(SpreadSettings({"--set", "optimizer.lr", "--resume"}).ok());  // the job file's reader reports the error
}

TEST_CASE("an option that there is not is told from the one that was meant", "[cli][command_line]") {
  CHECK(Explain({"--rundir", "x"}, {"--rundir", "x"}) == "there is no option --rundir; did you mean \"--run-dir\"?");
  CHECK(Explain({"--nothing-like-it"}, {"--nothing-like-it"}) == "there is no option --nothing-like-it");
}

TEST_CASE("an option that is a key of the job file is told as --set", "[cli][command_line]") {
  const std::string workers = "; the job file has it: write --set cluster.workers=4";
  CHECK(Explain({"launch", "--workers", "4", "job.toml"}, {"--workers", "job.toml"}) ==
        "there is no option --workers" + workers);
  CHECK(Explain({"job.toml", "-w", "4"}, {"-w", "4"}) == "there is no option -w" + workers);
  CHECK(Explain({"--workers=4"}, {"--workers=4"}) == "there is no option --workers" + workers);
  CHECK(Explain({"--steps", "--resume"}, {"--steps"}).ends_with("--set job.steps=VALUE"));
  CHECK(Explain({"--kind", "mlp"}, {"--kind", "mlp"}) == "there is no option --kind");  // key of several sections
}

TEST_CASE("words that no option takes are shown as they were typed", "[cli][command_line]") {
  CHECK(Explain({"job.toml", "python3", "train.py"}, {"python3", "train.py"}) ==
        "\"python3 train.py\" is not expected here; a program of your own, and its arguments, stand behind \"--\"");
  CHECK(Explain({"job.toml", "4"}, {"4"}) == "\"4\" is not expected here");
}

}  // namespace
}  // namespace capstan::cli
