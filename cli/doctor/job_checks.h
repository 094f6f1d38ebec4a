// Checks of a job on this machine: whether all that `capstan launch` would start for it can run here.
//
// Kind:   functions; they read the job's data, because the model's shape depends on it.
// Limits: a job with workers of the user's own is checked without them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/doctor/finding.h"
#include "cli/doctor/machine_facts.h"
#include "cli/trainer/device_facts.h"
#include "common/config/job_config.h"

namespace capstan::cli {

// Reads the job file into `config`, with absolute paths. On an error `config` is left empty.
Finding ReadJob(const std::string& file, const std::vector<std::string>& overrides,
                std::optional<EditableJobConfig>* config);
// Whether all processes fit into this machine's memory. Writes the size of a snapshot; 0: unknown.
Finding CheckNeeds(const JobConfig& config, std::uint64_t* snapshot_bytes);
Finding CheckThreads(const JobConfig& config, const ProcessorFacts& processor);
// Whether this machine can listen where the job file says.
Finding CheckAddresses(const JobConfig& config);
// `config` may be null: then a GPU is of use and not needed.
Finding CheckDevice(const DeviceFacts& facts, const JobConfig* config);

}  // namespace capstan::cli
