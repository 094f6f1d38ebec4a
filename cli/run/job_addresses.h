// JobAddresses: where each process of a job is reached, as endpoints.json says it and as Prometheus discovers it.
//
// Kind:   shared; any thread. Made by the coordinator's process, whose run directory gets the file.
// Fails:  kUnreachable: the file cannot be written.
// Why:    ports are chosen by the system, and members come and go; people and monitoring have one place to look.
#pragma once

#include <optional>
#include <string>

#include "cli/run/run_directory.h"
#include "common/base/mailbox.h"
#include "common/base/status.h"
#include "server/coordinator/roster.h"

namespace capstan::cli {

class JobAddresses {
 public:
  JobAddresses(std::string job, std::uint32_t shards_per_server);

  // Writes the file for the first time. Addresses are host:port.
  Status Begin(const std::string& run_dir, const std::string& coordinator, const std::string& metrics);
  // Writes it again once it was begun; before that they are kept for then.
  Status SetMembers(const server::Roster& members);
  // Writes it where that has failed.
  Status WriteAgain();
  // What Prometheus' http_sd_configs reads: every process that serves metrics, with labels job, role and name. One whose
  // metrics only its own machine reaches is left out where the job has other machines.
  std::string HttpSd() const;

 private:
  struct State {
    std::string run_dir;  // empty: not begun
    std::string coordinator, metrics;
    server::Roster members;
    bool unwritten = false;  // the last time it could not be written
  };
  Status Write(State* written) const;

  const std::string job_;
  const std::uint32_t shards_per_server_;
  mutable Guarded<State> state_;
};

// Of the job that runs there, or ran last. Empty where there are none, or none that can be read.
Endpoints ReadEndpoints(const std::string& run_dir);
// Where the coordinator of this run directory was when its addresses were last written down; nothing: nowhere yet.
std::optional<std::string> LastCoordinator(const std::string& run_dir);

}  // namespace capstan::cli
