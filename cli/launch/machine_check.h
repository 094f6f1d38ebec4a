// MachineAccount: what all processes of a job will hold on this machine together, before any of them is started.
//
// Kind:   a value; CountMachine reads the job's data, whose shape the model follows.
// Limits: data that workers read are not in it; nor are programs of the user's own, of which nothing is known. Each part
//         is counted as the process itself counts it.
// Fails:  CheckMachine with kInvalid: the sum by role, how much there is, what to change.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "common/config/job/forward.h"
#include "worker/train/free_memory.h"
#include "worker/train/memory_account.h"

namespace capstan::cli {

struct MachineAccount {
  std::uint64_t parameters = 0;
  std::uint32_t servers = 0, workers = 0;
  std::uint64_t all_servers = 0;          // bytes
  std::uint64_t largest_server = 0;       // bytes: a limit may hold for each process
  std::uint64_t bytes_per_parameter = 0;  // on the servers
  train::MemoryAccount worker;            // of each

  std::uint64_t bytes() const { return all_servers + workers * worker.resident(); }
};

Result<MachineAccount> CountMachine(const JobConfig& config);
Status CheckMachine(const MachineAccount& account, const train::FreeMemory& free);
// Both, for a job whose workers are ours.
Status CheckMachine(const JobConfig& config);

}  // namespace capstan::cli
