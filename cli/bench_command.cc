#include "cli/bench_command.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/run/process.h"
#include "common/config/suggestion.h"

namespace capstan::cli {
namespace {

void PrintFigures(const std::vector<bench::Figure>& figures) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const bench::Figure& figure : figures) {
    nlohmann::ordered_json object = {{"name", figure.name}, {"value", figure.value}, {"unit", figure.unit}};
    object["limit"] = figure.limit == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(figure.limit);
    object["limit_name"] = figure.limit_name;
    object["ratio"] = figure.limit == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(figure.ratio);
    list.push_back(std::move(object));
  }
  std::printf("%s\n", list.dump(2).c_str());
}

void PrintTable(const std::vector<bench::Figure>& figures) {
  int width = 4;
  for (const bench::Figure& figure : figures) width = std::max(width, static_cast<int>(figure.name.size()));
  std::printf("%-*s  %12s %-12s %8s  %s\n", width, "name", "value", "unit", "ratio", "limit");
  for (const bench::Figure& figure : figures) {
    std::printf("%-*s  %12.4g %-12s ", width, figure.name.c_str(), figure.value, figure.unit.c_str());
    if (figure.limit == 0) {
      std::printf("%8s\n", "-");
    } else {
      std::printf("%8.3f  %.4g (%s)\n", figure.ratio, figure.limit, figure.limit_name.c_str());
    }
  }
}

int ListBenches(std::span<const bench::Bench> benches, std::FILE* out) {
  for (const bench::Bench& bench : benches) std::fprintf(out, "  %-12s %s\n", bench.name.c_str(), bench.help.c_str());
  return kExitUsage;
}

// Prints a figure to stderr as soon as it is measured, so that the figure is not lost if a later measurement fails.
// Stdout gets all figures at the end.
void PrintMeasured(const bench::Figure& figure) {
  std::fprintf(stderr, "%s: %.4g %s", figure.name.c_str(), figure.value, figure.unit.c_str());
  if (figure.limit != 0)
    std::fprintf(stderr, ", %.3f of %.4g (%s)", figure.ratio, figure.limit, figure.limit_name.c_str());
  std::fputc('\n', stderr);
}

Result<std::vector<bench::Figure>> Run(const bench::Bench& bench, const BenchArguments& arguments) {
  if (!bench.run_parts) return bench.run();
  return bench.run_parts({.only = arguments.only, .python = arguments.python, .measured = PrintMeasured});
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
  if (!bench->run_parts && !(arguments.only.empty() && arguments.python.empty())) {
    std::fprintf(stderr, "capstan: the benchmark \"%s\" has no parts and no PyTorch; leave --only and --python out\n",
                 bench->name.c_str());
    return kExitUsage;
  }
  PrepareProcess();
  const Result<std::vector<bench::Figure>> figures = Run(*bench, arguments);
  if (!figures.ok()) {
    Complain("capstan", figures.status().message());
    return kExitFailed;
  }
  arguments.output == "json" ? PrintFigures(*figures) : PrintTable(*figures);
  return kExitDone;
}

}  // namespace capstan::cli
