// ImportWeights: creates a run directory whose job begins with given weights.
//
// Kind:   function.
// Limits: memory for about twice the file.
// Fails:  kInvalid: the job file, the run directory, or weights that do not fit the job's model, all of them named;
//         kCorrupt: the file; kUnreachable: the disk. No snapshot is then left in the run directory.
// Why:    the weights become an ordinary snapshot of version 0, from which the job continues on any number of shards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan::cli {

struct ImportOptions {
  std::string job_file;
  std::vector<std::string> overrides;
  std::string weights;               // a safetensors file of fp32 tensors
  std::string run_dir;               // must not hold a run
  std::vector<std::string> renames;  // OLD=NEW: the file's tensor OLD is the model's NEW
};

// The layout of the file of weights: as `capstan snapshot export` writes it, or as in OpenAI's GPT-2.
enum class WeightLayout : std::uint8_t { kOwn, kGpt2 };

struct Imported {
  std::uint64_t tensors = 0, bytes = 0, shards = 0;
  WeightLayout layout = WeightLayout::kOwn;
};

Result<Imported> ImportWeights(const ImportOptions& options);

}  // namespace capstan::cli
