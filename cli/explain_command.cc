#include "cli/explain_command.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cli/explain/explanations.h"
#include "cli/run/process.h"
#include "common/config/job_config.h"
#include "common/config/suggestion.h"

namespace capstan::cli {
namespace {

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string FullText(const Explanation& explanation) {
  const std::string names = explanation.names.empty() ? "" : " (" + Joined(explanation.names) + ")";
  return explanation.id + names + "\n\n  " + explanation.meaning + "\n\n  Usual causes: " + explanation.causes +
         "\n\n  What to do: " + explanation.advice + "\n";
}

nlohmann::ordered_json JsonOf(const Explanation& explanation) {
  return {{"id", explanation.id},
          {"names", explanation.names},
          {"meaning", explanation.meaning},
          {"causes", explanation.causes},
          {"advice", explanation.advice}};
}

void PrintAll(const ExplainArguments& arguments) {
  if (arguments.output == "json") {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Explanation& explanation : AllExplanations()) list.push_back(JsonOf(explanation));
    std::printf("%s\n", list.dump(2).c_str());
    return;
  }
  for (const Explanation& explanation : AllExplanations()) {
    if (arguments.all) {
      std::printf("%s\n", FullText(explanation).c_str());
    } else {
      std::printf("%-12s %s\n", explanation.id.c_str(), explanation.meaning.c_str());
    }
  }
}

int Unknown(const std::string& code) {
  const std::vector<std::string> keys = JobFileKeys();
  if (std::find(keys.begin(), keys.end(), code) != keys.end()) {
    Complain("capstan",
             code +
                 " is a key of the job file, which docs/reference/job-file.md explains; capstan launch JOB.toml "
                 "--print-config shows its value");
    return kExitUsage;
  }
  const std::vector<Explanation> all = AllExplanations();
  std::vector<std::string_view> ids;
  for (const Explanation& explanation : all) ids.push_back(explanation.id);
  Complain("capstan", "no code is named \"" + code + "\"" + DidYouMean(code, ids) + "\nTry 'capstan explain'.");
  return kExitUsage;
}

}  // namespace

Command DescribeExplain(Command app, ExplainArguments* arguments) {
  Command explain = app.AddCommand("explain", "Say what the code of an error, or an exit code, means.");
  explain.Add("CODE", &arguments->code,
              "such as stale, CAPSTAN_STALE, capstan.Stale, or the exit code 137; without one: their list");
  explain.AddFlag("--all", &arguments->all, "explain all of them");
  explain.Add("-o,--output", &arguments->output, "text or json").OneOf({"text", "json"}).ShowDefault();
  return explain;
}

int RunExplain(const ExplainArguments& arguments) {
  if (arguments.code.empty()) {
    PrintAll(arguments);
    return kExitDone;
  }
  const std::optional<Explanation> explanation = FindExplanation(arguments.code);
  if (!explanation) return Unknown(arguments.code);
  if (arguments.output == "json") {
    std::printf("%s\n", JsonOf(*explanation).dump(2).c_str());
  } else {
    std::fputs(FullText(*explanation).c_str(), stdout);
  }
  return kExitDone;
}

}  // namespace capstan::cli
