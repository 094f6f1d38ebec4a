// MemoryAccount: an estimate of the most memory that a worker will use, computed before the worker allocates.
//
// Kind:   a value.
// Limits: does not count the data set, which is loaded already, nor freed memory that glibc keeps. A worker that gets
//         slots of lost workers holds more gradients than counted: about one more each time its number of slots
//         doubles.
// Fails:  CheckMemory with kInvalid: the need of each part, the memory there is, and what to change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/free_memory.h"
#include "common/base/status.h"
#include "common/config/job/forward.h"
#include "worker/data/dataset.h"
#include "worker/device/job_model.h"

namespace capstan::train {

struct MemoryAccount {
  std::uint64_t weights = 0;        // the weights as the model reads them
  std::uint64_t gradients = 0;      // gradient_buffers times all parameters
  std::uint64_t activations = 0;    // for the largest micro-batch; in device memory if there is a device
  std::uint64_t samples = 0;        // samples of a micro-batch
  std::uint64_t messages = 0;       // weights in flight to this worker; buckets of machine reduction
  std::uint64_t scratch = 0;        // the kernels' scratch memory
  std::uint64_t never_written = 0;  // address space only: of the fp32 weights, if the model reads them in 16 bits
  // Number of whole gradients held at once: sums of this worker's slots, gradients that are being sent, and the sums of
  // machine reduction.
  std::uint64_t gradient_buffers = 0;
  std::uint64_t micro_batch = 0;  // most samples in a micro-batch, of training or validation
  std::uint64_t accumulate = 1;   // the job file's setting
  bool can_recompute = false, recomputes = false;
  std::uint64_t activations_otherwise = 0;  // activations with the other setting of recompute, if can_recompute
  std::optional<DeviceMemory> device;       // nullopt: everything is in host memory

  // Returns the bytes of host memory that the worker will use.
  std::uint64_t resident() const {
    const std::uint64_t others = weights + gradients + samples + messages + scratch;
    return others + (device ? device->pinned + samples : activations);
  }
  std::uint64_t on_device() const {
    return device ? device->weights + device->gradients + device->work + samples + activations : 0;
  }
  std::string ToString() const;
};

// Counts the memory of a worker with an equal share of the slots. `make` has made `model`; `context` has the worker's
// threads.
Result<MemoryAccount> CountMemory(kernels::CpuContext& context, const JobConfig& config, const Dataset& data,
                                  JobModel& model, const ModelMaker& make);

Status CheckMemory(const MemoryAccount& account, const FreeMemory& free);
// Returns the error for an allocation that failed although CheckMemory had found enough memory.
Status OutOfMemory(const MemoryAccount& account, const FreeMemory& free);

}  // namespace capstan::train
