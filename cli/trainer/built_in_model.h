// NeedsOfJob, CheckMachine, CatalogOfJob, SampleOfJob: what the commands ask about a job's built-in model, outside of
// any worker.
//
// Kind:   functions; the first three read the job's data, because the model's shape depends on it.
// Fails:  kInvalid, kCorrupt: the data, or a model that does not fit it. kUnsupported: capstan was built without the
//         trainer (CMake compiles no_trainer.cc instead of built_in_model.cc).
// Why:    the other commands then need no file of the built-in trainer.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/config/job/forward.h"
#include "common/data/catalog.h"

namespace capstan::cli {

// The memory and disk space that the processes of a launched job need on this machine.
struct JobNeeds {
  std::uint64_t bytes = 0;           // of memory, all processes together
  std::uint64_t snapshot_bytes = 0;  // of one snapshot on disk
  std::string by_role;               // the memory of the servers and of the workers, a line for each
  Status fit;                        // kInvalid: they do not fit into the free memory; what to change
};
// Fails with kUnsupported if the job's workers are the user's programs, whose model nobody knows yet.
Result<JobNeeds> NeedsOfJob(const JobConfig& config);

// Whether capstan's own servers and workers of this job fit into this machine's memory; kInvalid says what to change.
// A job whose workers are the user's programs always passes.
Status CheckMachine(const JobConfig& config);

// Returns the list of the model's tensors that workers will declare.
Result<Catalog> CatalogOfJob(const JobConfig& config);

// Returns text that the job's byte-level gpt generates with the weights of this safetensors file.
Result<std::string> SampleOfJob(const JobConfig& config, const std::string& weights_path);

}  // namespace capstan::cli
