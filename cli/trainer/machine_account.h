// MachineAccount: the memory that all processes of a job will use on this machine, counted before any of them starts.
//
// Kind:   a value; CountMachine reads the job's data, because the model's shape depends on it.
// Limits: leaves out the data set and the user's own programs.
// Fails:  CheckMachine with kInvalid: the sum by role, the machine's memory, and what to change.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/free_memory.h"
#include "common/base/status.h"
#include "common/config/job/forward.h"
#include "worker/train/memory_account.h"

namespace capstan::cli {

struct MachineAccount {
  std::uint64_t parameters = 0;
  std::uint32_t servers = 0, workers = 0;
  std::uint64_t all_servers = 0;          // bytes
  std::uint64_t largest_server = 0;       // bytes: a limit may apply to each process
  std::uint64_t bytes_per_parameter = 0;  // on the servers
  train::MemoryAccount worker;            // for each worker

  std::uint64_t snapshot_bytes_per_parameter = 0;

  std::uint64_t bytes() const { return all_servers + workers * worker.resident(); }
  std::uint64_t snapshot_bytes() const { return parameters * snapshot_bytes_per_parameter; }
  // Returns two lines, each after a newline: the servers' memory and the workers'.
  std::string ByRole() const;
};

Result<MachineAccount> CountMachine(const JobConfig& config);
Status CheckMachine(const MachineAccount& account, const FreeMemory& free);

}  // namespace capstan::cli
