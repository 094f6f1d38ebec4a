// ViewCommand: the commands that look at a job: capstan status, top, logs, plot, metrics; and capstan stop.
//
// Kind:   owned by main; declares their options, then runs the chosen one.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/run_command.h"
#include "cli/view/logs.h"
#include "cli/view/metrics_table.h"
#include "cli/view/plot.h"
#include "cli/view/top.h"

namespace capstan::cli {

class ViewCommand {
 public:
  explicit ViewCommand(Command app);
  ViewCommand(const ViewCommand&) = delete;
  ViewCommand& operator=(const ViewCommand&) = delete;

  // Whether one of the commands was chosen.
  bool parsed() const;
  // Runs the chosen command and returns the exit code.
  int Run();

 private:
  void AddStatus();
  void AddTop();
  void AddLogs();
  void AddPlot();
  void AddMetrics();
  void AddStop();
  int RunChosen();

  Command app_;
  StatusArguments status_;
  TopOptions top_;
  LogsArguments logs_;
  PlotArguments plot_;
  MetricsArguments metrics_;
  std::string stopped_run_, stop_output_ = "table";
};

}  // namespace capstan::cli
