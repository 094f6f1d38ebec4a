#include "cli/command_line.h"

#include <iostream>

#include "cli/process.h"

namespace capstan::cli {

std::optional<int> ParseCommandLine(CLI::App* app, int argc, char** argv) {
  try {
    app->parse(argc, argv);
  } catch (const CLI::Success& done) {
    app->exit(done, std::cout, std::cerr);
    return kExitDone;
  } catch (const CLI::ParseError& error) {
    std::cerr << app->get_name() << ": " << error.what() << "\nTry '" << app->get_name() << " --help'.\n";
    return kExitUsage;
  }
  return std::nullopt;
}

}  // namespace capstan::cli
