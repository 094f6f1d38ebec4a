#include "cli/programs.h"

#include "cli/server_arguments.h"
#include "cli/worker_program.h"

namespace capstan::cli {

std::vector<CommandFacts> AllPrograms(const CommandFacts& capstan) {
  ServerArguments server;
  return {capstan, ServerCommandLine(&server).root().Facts(), WorkerFacts()};
}

}  // namespace capstan::cli
