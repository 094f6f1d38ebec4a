#include "cli/bench_command.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <cstdio>
#include <utility>

#include "bench/figure_text.h"
#include "cli/run/process.h"
#include "common/config/suggestion.h"

namespace capstan::cli {
namespace {

nlohmann::ordered_json JsonOf(const bench::Figure& figure) {
  const nlohmann::ordered_json none;
  const bool has_limit = figure.has_limit();
  nlohmann::ordered_json rounds = nlohmann::ordered_json::array();
  for (const bench::Sample& round : figure.rounds) {
    rounds.push_back({{"value", round.value},
                      {"limit", has_limit ? nlohmann::ordered_json(round.limit) : none},
                      {"ratio", has_limit ? nlohmann::ordered_json(round.value / round.limit) : none}});
  }
  return {{"name", figure.name},
          {"value", figure.Value().median},
          {"unit", figure.unit},
          {"limit", has_limit ? nlohmann::ordered_json(figure.Limit().median) : none},
          {"limit_name", figure.limit_name},
          {"ratio", has_limit ? nlohmann::ordered_json(figure.Ratio().median) : none},
          {"rounds", std::move(rounds)},
          {"others_share", figure.others_share ? nlohmann::ordered_json(*figure.others_share) : none}};
}

void PrintFigures(const std::vector<bench::Figure>& figures) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const bench::Figure& figure : figures) list.push_back(JsonOf(figure));
  std::printf("%s\n", list.dump(2).c_str());
}

int ListBenches(std::span<const bench::Bench> benches, std::FILE* out) {
  for (const bench::Bench& bench : benches) std::fprintf(out, "  %-12s %s\n", bench.name.c_str(), bench.help.c_str());
  return kExitUsage;
}

// Prints a figure to stderr as soon as it is measured, so that the figure is not lost if a later measurement fails.
// Stdout gets all figures at the end.
void PrintMeasured(const bench::Figure& figure) { std::fprintf(stderr, "%s\n", bench::LineOf(figure).c_str()); }

// Prints the figures on stdout, and what a reader must know about them: below the table, or on stderr next to JSON.
void PrintResults(const bench::Bench& bench, const BenchArguments& arguments, const bench::Results& results) {
  const bool is_json = arguments.output == "json";
  if (is_json) {
    PrintFigures(results.figures);
  } else {
    std::fputs(bench::TableOf(results.figures).c_str(), stdout);
  }
  std::FILE* const out = is_json ? stderr : stdout;
  if (arguments.is_quick) std::fprintf(out, "--quick left out: %s.\n", bench.left_out.c_str());
  if (results.short_rows > 0) std::fprintf(out, "%s\n", bench::ShortRowsLine(results).c_str());
  std::fprintf(out, "%s\n", bench::OthersLine(results.use, results.figures).c_str());
}

Result<bench::Results> Run(const bench::Bench& bench, const BenchArguments& arguments) {
  const bench::Extent extent = arguments.is_quick ? bench::Extent::kQuick : bench::Extent::kWhole;
  CAPSTAN_ASSIGN_OR_RETURN(bench::Plan plan, bench.plan({.extent = extent, .python = arguments.python}));
  return bench::Measure(
      std::move(plan),
      {.only = arguments.only, .left_out = arguments.is_quick ? bench.left_out : "", .measured = PrintMeasured});
}

}  // namespace

int RunBench(const BenchArguments& arguments, std::span<const bench::Bench> benches) {
  const auto bench =
      std::find_if(benches.begin(), benches.end(), [&](const bench::Bench& b) { return b.name == arguments.name; });
  if (bench == benches.end()) {
    std::vector<std::string_view> names;
    for (const bench::Bench& known : benches) names.push_back(known.name);
    const std::string complaint =
        arguments.name.empty() ? "say which benchmark"
                               : "no benchmark is named \"" + arguments.name + "\"" + DidYouMean(arguments.name, names);
    std::fprintf(stderr, "capstan: %s. There are:\n", complaint.c_str());
    return ListBenches(benches, stderr);
  }
  if (!bench->uses_python && !arguments.python.empty()) {
    std::fprintf(stderr, "capstan: the benchmark \"%s\" compares with no PyTorch; leave --python out\n",
                 bench->name.c_str());
    return kExitUsage;
  }
  PrepareProcess();
  const Result<bench::Results> results = Run(*bench, arguments);
  if (!results.ok()) {
    Complain("capstan", results.status().message());
    return kExitFailed;
  }
  PrintResults(*bench, arguments, *results);
  return kExitDone;
}

}  // namespace capstan::cli
