// capstan-worker in a build without the built-in trainer: prints that it cannot run, and fails.
#include <cstdio>
#include <string_view>

#include "cli/run/build_info.h"
#include "cli/run/process.h"
#include "cli/trainer/no_trainer.h"

int main(int argc, char** argv) {
  namespace cli = capstan::cli;
  if (argc == 2 && argv[1] == std::string_view("--version")) {
    std::printf("%s\n", cli::VersionLine("capstan-worker").c_str());
    return cli::kExitDone;
  }
  cli::Complain("capstan-worker", cli::NoTrainer("capstan-worker").message());
  return cli::kExitFailed;
}
