// Lines about a job that `capstan launch`, or a coordinator started without it, prints: the job's size, workers without
// work, and the job's result.
//
// Kind:   pure functions, except that EndLines reads the file of weights.
#pragma once

#include <string>
#include <vector>

#include "common/config/job/forward.h"

namespace capstan::cli {

class Progress;

// Returns a text such as "200 steps, 4 slots (the default)".
std::string SizeText(const JobConfig& config);

// Returns a text such as "2 of 6 workers will have nothing to compute: ..."; empty if every worker has a slot.
std::string IdleWorkersText(const JobConfig& config);

// Returns the line "weights: PATH  sha256 HEX", after a warning if the loss is not finite or rose far above the first.
std::vector<std::string> EndLines(const Progress& progress, const std::string& weights_path);

}  // namespace capstan::cli
