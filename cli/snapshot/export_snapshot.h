// ExportSnapshot: a snapshot as a safetensors file.
//
// Kind:   function.
// Limits: memory for one block.
// Fails:  kCorrupt: a part is missing or damaged; kUnreachable: the file cannot be written. Then there is no new file,
//         and one that was there before is untouched.
// Why:    every block is compared with its hash on the way. The weights alone are byte by byte what final.safetensors
//         would be at that step.
//
// With the optimizer's state: behind the weights, in the same order, a tensor for each state, "<tensor>/<state>" with
// PyTorch's names: momentum_buffer (momentum, lars), sum (adagrad), exp_avg and exp_avg_sq (adam, adamw, lamb). The
// file's __metadata__ then says step, generation, updates (the optimizer's step count), optimizer and job.
#pragma once

#include <cstdint>
#include <string>

#include "cli/snapshot/run_snapshots.h"

namespace capstan::cli {

enum class ExportContents { kWeights, kWeightsAndState };

struct Exported {
  std::uint64_t tensors = 0, bytes = 0;  // of all values
};

Result<Exported> ExportSnapshot(const RunSnapshots& run, const server::ManifestRecord& manifest,
                                const std::string& path, ExportContents contents);

}  // namespace capstan::cli
