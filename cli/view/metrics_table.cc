#include "cli/view/metrics_table.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include "cli/run/find_run.h"
#include "cli/run/print_json.h"
#include "cli/run/process.h"
#include "cli/view/step_records.h"
#include "common/base/utf8.h"
#include "common/config/suggestion.h"

namespace capstan::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// The columns of every record, in the order in which the document lists them.
constexpr std::string_view kUsual[] = {"step",
                                       "loss",
                                       "lr",
                                       "grad_norm",
                                       "samples",
                                       "seconds",
                                       "action",
                                       "generation",
                                       "loss_scale",
                                       "validation_loss",
                                       "validation_accuracy"};

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<std::string> InOrder(const std::vector<std::string>& columns) {
  std::vector<std::string> ordered;
  for (const std::string_view usual : kUsual) {
    if (std::find(columns.begin(), columns.end(), usual) != columns.end()) ordered.emplace_back(usual);
  }
  for (const std::string& column : columns) {
    if (std::find(ordered.begin(), ordered.end(), column) == ordered.end()) ordered.push_back(column);
  }
  return ordered;
}

Result<std::vector<std::string>> ChooseColumns(const StepRecords& records, const std::string& keys) {
  if (keys.empty()) return InOrder(records.columns());
  std::vector<std::string> wanted = Split(keys);
  const std::vector<std::string_view> known(records.columns().begin(), records.columns().end());
  for (const std::string& key : wanted) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      return Invalid("no step of this run has \"" + key + "\"" + DidYouMean(key, known));
  }
  return wanted;
}

// Returns the value of a column, which may be one of the user's own; null: there is none, or it is not finite. Lists
// and objects have no column.
json CellOf(const json& record, const std::string& key) {
  if (const auto found = record.find(key); found != record.end() && found->is_primitive()) return *found;
  const std::optional<double> own = ValueAt(record, key);
  return own && std::isfinite(*own) ? json(*own) : json();
}

std::string CsvText(const json& record, const std::string& key) {
  const json cell = CellOf(record, key);
  if (cell.is_string()) return CsvCell(cell.get<std::string>());
  if (!cell.is_null()) return CsvCell(cell.dump());
  return ValueAt(record, key) ? "nan" : "";  // a number that is not finite, or none
}

void PrintCsv(const StepRecords& records, const std::vector<std::string>& columns) {
  std::string line;
  for (const std::string& column : columns) line += (line.empty() ? "" : ",") + CsvCell(column);
  std::printf("%s\n", line.c_str());
  records.ForEach([&](const json& record, std::string_view) {
    line.clear();
    for (std::size_t i = 0; i < columns.size(); ++i) line += (i > 0 ? "," : "") + CsvText(record, columns[i]);
    std::printf("%s\n", line.c_str());
  });
}

// Prints the records as they are; for a terminal, without control characters.
void PrintRecords(const StepRecords& records) {
  const bool is_terminal = isatty(STDOUT_FILENO) == 1;
  records.ForEach([&](const json&, std::string_view line) {
    const std::string text = is_terminal ? PrintableLine(line) : std::string(line);
    std::printf("%s\n", text.c_str());
  });
}

void PrintJsonLines(const StepRecords& records, const std::vector<std::string>& columns) {
  records.ForEach([&](const json& record, std::string_view) {
    ordered_json object = ordered_json::object();
    for (const std::string& column : columns) object[column] = CellOf(record, column);
    PrintJsonLine(object);
  });
}

int Fail(const Status& status) {
  Complain("capstan", status.message());
  return ExitCode(status);
}

}  // namespace

std::string CsvCell(const std::string& text) {
  std::string printable = PrintableLine(text);
  if (printable.find_first_of(",\"") == printable.npos) return printable;
  std::string quoted = "\"";
  for (const char c : printable) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

int RunMetrics(const MetricsArguments& arguments) {
  const Result<std::string> run = RunOrDefault(arguments.run_dir);
  if (!run.ok()) return Fail(run.status());
  StepRecords records(*run + "/metrics.jsonl");
  records.Survey();
  if (records.records() == 0) return Fail(Unreachable("there is no step in " + *run + "/metrics.jsonl yet"));
  const Result<std::vector<std::string>> columns = ChooseColumns(records, arguments.keys);
  if (!columns.ok()) return Fail(columns.status());
  if (arguments.format == "csv") {
    PrintCsv(records, *columns);
  } else if (arguments.keys.empty()) {
    PrintRecords(records);
  } else {
    PrintJsonLines(records, *columns);
  }
  if (records.bad_lines() > 0)
    Complain("capstan", std::to_string(records.bad_lines()) + " lines of " + *run + "/metrics.jsonl have no step");
  return kExitDone;
}

}  // namespace capstan::cli
