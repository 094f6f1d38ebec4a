// WorkerSection: section [worker] of the job file.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/config/job/device.h"

namespace capstan {

struct WorkerSection {
  Device device;
  Precision precision = Precision::kFp32;
  std::uint32_t accumulate = 1;      // number of micro-batches of a slot
  std::uint32_t threads = 0;         // 0: the worker chooses
  bool recompute = false;            // gpt, resnet: the backward pass computes layers again, which saves memory
  std::vector<std::string> command;  // client: the program that capstan launch starts as the workers; empty: none
  bool operator==(const WorkerSection&) const = default;
};

}  // namespace capstan
