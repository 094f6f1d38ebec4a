#include "cli/keygen_command.h"

#include <cstdio>

#include "cli/run/job_keys.h"
#include "cli/run/process.h"

namespace capstan::cli {

int RunKeygen(const std::string& folder) {
  const Result<std::string> coordinator = MakeJobKeys(folder);
  if (!coordinator.ok()) {
    Complain("capstan", coordinator.status().message());
    return ExitCode(coordinator.status());
  }
  std::printf(
      "The keys are in %s. In the job file:\n"
      "  [cluster]\n"
      "  coordinator = \"HOST:PORT#%s\"\n"
      "Take coordinator.key and allow.toml to the coordinator's machine, server.key and allow.toml to each server's, "
      "and\n"
      "worker.key to each worker's, all with mode 0600. Start each process with --key-file FILE or CAPSTAN_KEY_FILE.\n",
      folder.c_str(), coordinator->c_str());
  return kExitDone;
}

}  // namespace capstan::cli
