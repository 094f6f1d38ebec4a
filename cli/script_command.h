// capstan run: trains a script's model without a job file.
#pragma once

#include <string>
#include <vector>

#include "cli/launch/arguments.h"
#include "cli/launch/script_facts.h"

namespace capstan::cli {

struct ScriptArguments {
  LaunchArguments launch;          // without job file, program and settings
  ScriptOptions job;               // without the command
  std::vector<std::string> words;  // the script's arguments
  std::string python;              // the interpreter; empty: `default_python`
  std::string default_python = "python3";
  double prepare_seconds = 600;
  bool model_from_script = false;  // what the command does anyway
};

// Starts the script, makes its job when it calls prepare(), and runs that job. Returns the exit code.
int RunScript(ScriptArguments arguments);

}  // namespace capstan::cli
