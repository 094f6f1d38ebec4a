// ReferenceCommands: capstan completion, man and options: what the programs' commands and options are, for shells, for
// man and for programs.
//
// Kind:   owned by main.
#pragma once

#include <optional>
#include <string>

#include "cli/command_line.h"

namespace capstan::cli {

class ReferenceCommands {
 public:
  explicit ReferenceCommands(Command app);
  ReferenceCommands(const ReferenceCommands&) = delete;
  ReferenceCommands& operator=(const ReferenceCommands&) = delete;

  bool parsed() const { return completion_.parsed() || man_.parsed() || options_.parsed(); }
  // Runs the chosen command and returns the exit code.
  int Run() const;

 private:
  const Command app_;
  Command completion_, man_, options_;
  std::string shell_, program_ = "capstan", output_ = "json";
};

}  // namespace capstan::cli
