// MemoryAccount: what a worker will hold at most, before it holds any of it.
//
// Kind:   a value.
// Limits: what is read with the data is there already, and not in it; nor is what glibc keeps of freed memory. A worker
//         that is given the slots of others, which are gone, holds more gradients than counted: about one more each
//         time that the number of its slots doubles.
// Fails:  CheckMemory with kInvalid: how much each part takes, how much there is, what to change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/config/job/forward.h"
#include "worker/data/dataset.h"
#include "worker/device/job_model.h"
#include "worker/train/free_memory.h"

namespace capstan::train {

// "1.5 GiB", "640 MiB".
std::string MemoryText(std::uint64_t bytes);

struct MemoryAccount {
  std::uint64_t weights = 0;        // as the model reads them
  std::uint64_t gradients = 0;      // of gradient_buffers whole models
  std::uint64_t activations = 0;    // of the largest micro-batch; the device's, where there is one
  std::uint64_t samples = 0;        // the micro-batch itself
  std::uint64_t messages = 0;       // weights on their way here
  std::uint64_t scratch = 0;        // of the kernels
  std::uint64_t never_written = 0;  // address space alone: 16 bits leave the fp32 weights' memory untouched
  // This worker's slots on their way up the reduction tree, and what is on the wire.
  std::uint64_t gradient_buffers = 0;
  std::uint64_t micro_batch = 0;  // samples, of training or validation
  std::uint64_t accumulate = 1;   // as the job file has it
  bool can_recompute = false, recomputes = false;
  std::uint64_t activations_otherwise = 0;  // with the other setting of recompute, where there is one
  std::optional<DeviceMemory> device;       // none: all of it is the host's

  // Of the host's memory.
  std::uint64_t resident() const {
    const std::uint64_t others = weights + gradients + samples + messages + scratch;
    return others + (device ? device->pinned + samples : activations);
  }
  std::uint64_t on_device() const {
    return device ? device->weights + device->gradients + device->work + samples + activations : 0;
  }
  std::string ToString() const;
};

// For a worker that has its share of the slots. `model` is one that `make` made; `context` has the worker's threads.
Result<MemoryAccount> CountMemory(kernels::CpuContext& context, const JobConfig& config, const Dataset& data,
                                  JobModel& model, const ModelMaker& make);

Status CheckMemory(const MemoryAccount& account, const FreeMemory& free);
// When an allocation failed although the account fitted.
Status OutOfMemory(const MemoryAccount& account, const FreeMemory& free);

}  // namespace capstan::train
