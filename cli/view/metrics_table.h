// RunMetrics: the command capstan metrics: the steps of a run as a table, in CSV or as lines of JSON.
//
// Kind:   function; main's thread.
// Limits: StepRecords'.
#pragma once

#include <string>

namespace capstan::cli {

struct MetricsArguments {
  std::string run_dir;         // empty: the run that is running, or else the newest
  std::string format = "csv";  // or json, jsonl: a line of JSON for each step
  std::string keys;            // the columns, with commas between them; empty: all
};

// Returns the exit code.
int RunMetrics(const MetricsArguments& arguments);

// Returns a text as a cell of a CSV file, with quotes where it needs them.
std::string CsvCell(const std::string& text);

}  // namespace capstan::cli
