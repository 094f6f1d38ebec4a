// JobAddresses: the addresses of a job's processes, in endpoints.json and for Prometheus' discovery.
//
// Kind:   any thread may use it. The coordinator's process creates it and writes the file into its run directory.
// Fails:  kUnreachable: the file cannot be written.
// Why:    the system chooses ports, and members come and go; users and monitoring have one place to look.
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

  // Writes the file for the first time. `metrics`: host:port, or https://host:port.
  Status Begin(const std::string& run_dir, const std::string& coordinator, const std::string& metrics);
  // Takes the present members and writes the file again; before Begin it writes nothing.
  Status SetMembers(const server::Roster& members);
  // Writes the file again if the last attempt failed.
  Status WriteAgain();
  // Returns the answer for Prometheus' http_sd_configs: every process that serves metrics, with labels job, role and
  // name. If the job spans machines, it leaves out processes whose metrics are reachable only on their own machine.
  std::string HttpSd() const;

 private:
  struct State {
    std::string run_dir;  // empty: not begun
    std::string coordinator, metrics;
    server::Roster members;
    bool unwritten = false;  // the last attempt to write failed
  };
  Status Write(State* written) const;

  const std::string job_;
  const std::uint32_t shards_per_server_;
  mutable Guarded<State> state_;
};

// Reads the addresses of the job that runs in the directory, or ran there last; empty if there are none, or the file is
// unreadable.
Endpoints ReadEndpoints(const std::string& run_dir);
// Reads only the coordinator's TCP address from endpoints.json; nothing if there is no valid one.
std::optional<std::string> LastCoordinator(const std::string& run_dir);

}  // namespace capstan::cli
