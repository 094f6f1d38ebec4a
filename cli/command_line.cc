#include "cli/command_line.h"

#include <algorithm>
#include <cstdint>
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

void DescribeResume(CLI::App* app, const std::string& who, RunBegin* begin) {
  const auto set = [begin](RunBegin value) {
    return [begin, value](std::int64_t) { *begin = std::max(*begin, value); };
  };
  auto* resume = app->add_flag_function("--resume", set(RunBegin::kResume),
                                        who + "go on with the job of --run-dir from its newest snapshot");
  app->add_flag_function("--accept-rollback", set(RunBegin::kRollBack),
                         who +
                             "go on although the coordinator's log is older than what its servers have seen: what "
                             "came after its newest snapshot is given up")
      ->needs(resume);
}

}  // namespace capstan::cli
