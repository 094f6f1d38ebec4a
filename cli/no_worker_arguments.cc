// WorkerFacts in a build without the built-in trainer.
#include "cli/command_line.h"
#include "cli/run/build_info.h"
#include "cli/worker_program.h"

namespace capstan::cli {

CommandFacts WorkerFacts() {
  CommandLine line("Is not in this build, which has no built-in trainer.", "capstan-worker");
  line.root().AddVersion(VersionLine("capstan-worker"));
  return line.root().Facts();
}

}  // namespace capstan::cli
