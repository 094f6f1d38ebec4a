// What launch and a coordinator by hand say of a job besides its events: its size, who will have nothing to do, its end.
//
// Kind:   pure functions, but for EndLines, which reads the weights once.
#pragma once

#include <string>
#include <vector>

#include "common/config/job/forward.h"

namespace capstan::cli {

class Progress;

// "200 steps, 4 slots (the default)"
std::string SizeText(const JobConfig& config);

// "2 of 6 workers will have nothing to compute: ..."; empty where every worker has a slot.
std::string IdleWorkersText(const JobConfig& config);

// "weights: PATH  sha256 HEX", and in front of it a warning where the loss says that they are of no use.
std::vector<std::string> EndLines(const Progress& progress, const std::string& weights_path);

}  // namespace capstan::cli
