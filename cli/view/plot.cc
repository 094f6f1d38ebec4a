#include "cli/view/plot.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <string_view>

#include "cli/run/find_run.h"
#include "cli/run/followed_file.h"
#include "cli/run/json_fields.h"
#include "cli/run/process.h"
#include "cli/terminal/columns.h"
#include "cli/terminal/terminal_look.h"
#include "cli/view/chart.h"
#include "cli/view/step_records.h"
#include "cli/view/svg_chart.h"
#include "common/base/utf8.h"
#include "common/config/suggestion.h"

namespace capstan::cli {
namespace {

using nlohmann::json;

constexpr int kRowsMost = 30;

// The curve of one key of a run, and the names of all its keys.
struct RunCurve {
  NamedCurve curve;
  std::set<std::string> keys;
};

void NoteKeys(const json& record, std::set<std::string>* keys) {
  for (const auto& [name, value] : record.items()) {
    if (keys->size() >= StepRecords::kColumnsMax) return;
    if (value.is_number() && name != "step") keys->insert(name);
    if (name != "metrics" || !value.is_object()) continue;
    for (const auto& [own, number] : value.items()) keys->insert("metrics." + own);
  }
}

RunCurve ReadCurve(const std::string& run_dir, const std::string& key) {
  RunCurve read;
  read.curve.name = run_dir;
  FollowedFile file(run_dir + "/metrics.jsonl");
  file.Read([&](std::string_view line) {
    const json record = ParseJson(line);
    const std::optional<std::uint64_t> step = CountIn(record, "step");
    if (!step) return;
    if (const std::optional<double> value = ValueAt(record, key)) read.curve.series.Add(*step, *value);
    if (read.curve.series.empty()) NoteKeys(record, &read.keys);  // they are named where there is no curve
  });
  return read;
}

Status NothingToDraw(const RunCurve& run, const std::string& key) {
  const std::string where = run.curve.name + "/metrics.jsonl";
  if (run.keys.empty()) return Unreachable("there is no step in " + where + " yet");
  if (run.curve.series.not_finite() > 0) return Invalid("no \"" + key + "\" in " + where + " is finite");
  const std::vector<std::string_view> keys(run.keys.begin(), run.keys.end());
  std::string list;
  for (const std::string_view known : keys) list += (list.empty() ? "" : ", ") + std::string(known);
  return Invalid("no step in " + where + " has \"" + key + "\"" + DidYouMean(key, keys) + "; there are " + list);
}

void PrintChart(const std::vector<NamedCurve>& curves, const std::string& key) {
  const TerminalLook look = LookOf(STDOUT_FILENO);
  const TerminalSize size = SizeOf(STDOUT_FILENO);
  const auto columns = static_cast<std::size_t>(size.columns);
  const int rows = std::min(size.rows - 1 - static_cast<int>(curves.size()), kRowsMost);
  const ChartOptions options{
      std::max(columns, kChartColumnsMin), static_cast<std::size_t>(std::max(rows, static_cast<int>(kChartRowsMin))),
      look.utf8 ? Glyphs::kBraille : Glyphs::kAscii, look.colors, PrintableLine(key) + " by step"};
  std::vector<const Series*> series;
  for (const NamedCurve& curve : curves) series.push_back(&curve.series);
  for (const std::string& line : DrawChart(series, options)) std::printf("%s\n", line.c_str());
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const Series::Point& last = curves[i].series.points().back();
    const std::string text =
        PrintableLine(curves[i].name) + ": " + ShortNumber(last.mean()) + " at step " + std::to_string(last.last_step);
    std::printf("%s %s\n", CurveMark(i, curves.size(), options).c_str(),
                CutToColumns(look.utf8 ? text : AsciiOf(text), columns > 2 ? columns - 2 : 1).c_str());
  }
}

// Writes the file with the permissions that the user's umask gives.
Status WritePicture(const std::string& path, const std::string& picture) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << picture;
  out.close();
  return out ? Status() : Unreachable("cannot write " + path + ": " + std::strerror(errno));
}

Status PlotRuns(const PlotArguments& arguments) {
  if (!arguments.to.empty() && !arguments.to.ends_with(".svg"))
    return Invalid(
        "--to " + arguments.to +
        ": pictures are written as SVG, which browsers show; give a name that ends with .svg, and make other "
        "kinds of it, such as with rsvg-convert FILE.svg -o FILE.png");
  if (arguments.runs.size() > PlotArguments::kRunsMax)
    return Invalid(std::to_string(arguments.runs.size()) + " runs are too many for one plot; give up to " +
                   std::to_string(PlotArguments::kRunsMax));
  std::vector<std::string> runs = arguments.runs;
  if (runs.empty()) runs.emplace_back();
  std::vector<NamedCurve> curves;
  for (const std::string& word : runs) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string run_dir, RunOrDefault(word));
    RunCurve read = ReadCurve(run_dir, arguments.key);
    if (read.curve.series.empty()) return NothingToDraw(read, arguments.key);
    curves.push_back(std::move(read.curve));
  }
  if (arguments.to.empty()) {
    PrintChart(curves, arguments.key);
    return {};
  }
  return WritePicture(arguments.to, SvgChart(curves, arguments.key));
}

}  // namespace

int RunPlot(const PlotArguments& arguments) {
  const Status status = PlotRuns(arguments);
  if (!status.ok()) Complain("capstan", status.message());
  return ExitCode(status);
}

}  // namespace capstan::cli
