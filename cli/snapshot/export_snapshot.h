// ExportSnapshot: writes a snapshot as a safetensors file.
//
// Kind:   function.
// Limits: buffers one block at a time.
// Fails:  kCorrupt: a part is missing or damaged; kUnreachable: the file cannot be written. An existing file is then
//         left unchanged.
// Why:    every block is compared with its hash while it is copied. Without the optimizer's state, an export of a job's
//         last step has the same bytes as its final.safetensors.
//
// With the optimizer's state, one tensor "<tensor>/<state>" for each state follows the weights, in the same order. The
// states have PyTorch's names, which StateNames() in common/config/job/optimizer_section.h lists. The file's
// __metadata__ then has step, generation, updates (the optimizer's step count), optimizer and job.
#pragma once

#include <cstdint>
#include <string>

#include "cli/snapshot/run_snapshots.h"

namespace capstan::cli {

enum class ExportContents { kWeights, kWeightsAndState };

struct Exported {
  std::uint64_t tensors = 0, bytes = 0;  // counts of what the file has
};

Result<Exported> ExportSnapshot(const RunSnapshots& run, const server::ManifestRecord& manifest,
                                const std::string& path, ExportContents contents);

}  // namespace capstan::cli
