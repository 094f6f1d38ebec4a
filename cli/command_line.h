// ParseCommandLine: CLI11, with our exit codes.
//
// Kind:   function. Its exceptions stop here.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

namespace capstan::cli {

// Nothing: go on. Otherwise the exit code: 0 after --help or --version, 2 after a message about wrong use.
std::optional<int> ParseCommandLine(CLI::App* app, int argc, char** argv);

}  // namespace capstan::cli
