// RunPushPullWorker: a worker that computes nothing: it pushes the same gradient and pulls the new weights, round after
// round, through the public client library.
//
// Kind:   the body of a ChildProcess.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/child_process.h"

namespace capstan::bench {

struct PushPullLoad {
  std::size_t tensor_bytes = 0;
  std::size_t tensors = 1;
  int warmup_rounds = 3;
  double seconds = 1.0;

  std::size_t model_bytes() const { return tensor_bytes * tensors; }
};

// What one worker saw while it was timed.
struct PushPullTimes {
  std::uint64_t rounds = 0;  // each pushes the model once and pulls it once
  double seconds = 0.0;
  double round_p50 = 0.0, round_p99 = 0.0;  // seconds

  std::string ToLine() const;
  static PushPullTimes FromLine(const std::string& line);
};

// Says "ready" when warm; at the parent's line starts the clock; answers with a PushPullTimes; goes on until it is
// killed, so that no worker has the machine to itself while another is timed.
Status RunPushPullWorker(Channel& parent, const std::string& coordinator, const std::string& name,
                         const PushPullLoad& load);

}  // namespace capstan::bench
