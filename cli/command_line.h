// ParseCommandLine: CLI11, with our exit codes. DescribeResume: the options by which a run is gone on with.
//
// Kind:   functions. CLI11's exceptions stop here.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "cli/run_directory.h"

namespace capstan::cli {

// Nothing: go on. Otherwise the exit code: 0 after --help or --version, 2 after a message about wrong use.
std::optional<int> ParseCommandLine(CLI::App* app, int argc, char** argv);

// `who` stands before the help of each. `begin` outlives the parsing, and is set by it.
void DescribeResume(CLI::App* app, const std::string& who, RunBegin* begin);

}  // namespace capstan::cli
