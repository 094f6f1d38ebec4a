// FlightCommand: capstan flight [RUN_DIR], capstan flight show [RUN_DIR | FILES...].
//
// Kind:   owned by main; declares its options, then runs the chosen command.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/flight/flight_history.h"

namespace capstan::cli {

class FlightCommand {
 public:
  explicit FlightCommand(Command app);
  FlightCommand(const FlightCommand&) = delete;
  FlightCommand& operator=(const FlightCommand&) = delete;

  bool parsed() const { return flight_.parsed(); }
  // Runs the chosen command and returns the exit code.
  int Run();

 private:
  int Request() const;
  int Show();
  // Returns the files to show; if `paths_` names none, those of the run that runs now, or else of the newest.
  Result<std::vector<std::string>> FindFiles() const;

  Command flight_;
  std::string run_dir_;
  double wait_seconds_ = 5;
  std::vector<std::string> paths_;
  FlightFilter filter_;
  std::string last_;
  std::string output_ = "text";
};

}  // namespace capstan::cli
